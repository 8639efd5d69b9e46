package client

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/corvo/corvo/tenancy/keyring"
)

// Secret is a namespace's API key that was generated on this machine. The control plane needs only ID and
// Hash to accept the key, so Text need not leave the machine.
type Secret struct {
	Text string // the key
	ID   string
	Hash string // hex SHA-256 of Text
}

// NewSecret generates a namespace's API key. Send its ID and Hash with CreateNamespaceKey to make it valid.
func NewSecret() (Secret, error) {
	text, _, _, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		return Secret{}, err
	}
	return ReadSecret(text)
}

// ReadSecret checks the text of a namespace's API key and returns its ID and Hash.
func ReadSecret(text string) (Secret, error) {
	kind, id, ok := keyring.Parse(text)
	if !ok || kind != keyring.Namespace {
		return Secret{}, fmt.Errorf("this is not a namespace's API key: it begins with cv_%s_ and must be copied whole", keyring.Namespace)
	}
	hash := keyring.Hash(text)
	return Secret{Text: text, ID: id, Hash: hex.EncodeToString(hash[:])}, nil
}
