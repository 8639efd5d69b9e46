package certificate

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/durable"
)

// FileName is the name of a member's file below its directory.
const FileName = "certificate.pem"

// fileMode is the mode of a member's file, because the file holds the private key.
const fileMode = 0o600

// The types of the PEM blocks in a member's file.
const (
	keyBlock  = "PRIVATE KEY"
	certBlock = "CERTIFICATE"
)

// ErrUnusable means that a member's file is missing, damaged, or of another kind or store. The member then
// joins anew.
var ErrUnusable = errors.New("this member joins the fleet anew")

// writeFile replaces the file of a member durably and as a whole: its certificate, the roots of its bundle and its key,
// in PEM. The key is the last block, so that a truncated file lacks it.
func (m *Member) writeFile(path string) error {
	key, err := x509.MarshalPKCS8PrivateKey(m.key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", m.Identity, err)
	}
	file := append(pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: m.leaf.Raw}), m.Bundle.PEM()...)
	file = append(file, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: key})...)
	if err := durable.WriteFile(path, file, fileMode); err != nil {
		return fmt.Errorf("write the certificate of %s: %w", m.Identity, err)
	}
	return nil
}

// ReadMember reads the file of a member of this kind and store. Every error is ErrUnusable, except if the
// file exists and cannot be read.
func ReadMember(path string, kind Kind, store string) (*Member, error) {
	file, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no certificate in %s yet: %w", ErrUnusable, path, fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("read this member's certificate: %w", err)
	}
	m, err := parseMember(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is damaged: %w", ErrUnusable, path, err)
	}
	if m.Identity.Kind != kind || m.Identity.Store != store {
		return nil, fmt.Errorf("%w: the certificate in %s is of %s, and this is a %s with store %q", ErrUnusable, path, m.Identity, kind, store)
	}
	return m, nil
}

// parseMember decodes the output of writeFile.
func parseMember(file []byte) (*Member, error) {
	var certs [][]byte
	var key ed25519.PrivateKey
	for rest := file; len(rest) > 0; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil:
			return nil, errors.New("its end is missing")
		case key != nil:
			return nil, errors.New("its key is not the last block")
		case block.Type == certBlock:
			certs = append(certs, block.Bytes)
			continue
		case block.Type != keyBlock:
			return nil, fmt.Errorf("it has a block of the type %s", text.Quote(block.Type))
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("its key: %w", err)
		}
		var ok bool
		if key, ok = parsed.(ed25519.PrivateKey); !ok {
			return nil, errors.New("its key is not an Ed25519 key")
		}
	}
	if key == nil || len(certs) == 0 {
		return nil, errors.New("its certificate or its key is missing")
	}
	bundle, err := NewBundle(certs[1:]...)
	if err != nil {
		return nil, err
	}
	return NewMember(key, certs[0], bundle)
}
