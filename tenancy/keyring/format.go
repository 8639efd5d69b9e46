package keyring

import (
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// Kind says what a key gives access to. It is part of the key's text, so that a key pasted into the wrong
// place is recognised.
type Kind string

// The kinds of keys.
const (
	Namespace     Kind = "ns"   // a key to one namespace's data plane
	Org           Kind = "org"  // a cloud token: an organisation's key to the control plane and to its namespaces
	CloudOperator Kind = "op"   // a key of an operator of the cloud
	Host          Kind = "host" // the credential with which a host joins
	Gateway       Kind = "gw"   // the credential with which a gateway joins
)

// kinds lists the kinds that Parse accepts.
var kinds = []Kind{Namespace, Org, CloudOperator, Host, Gateway}

// The lengths of the parts of a key. The text is cv_<kind>_<id>_<secret><crc>. Id, secret and crc are in base 62,
// and the crc is the checksum of all text before it. Parse refuses a text of more than maxLength bytes.
const (
	IDLength     = 16 // characters of base 62
	secretLength = 43 // characters of base 62 that hold 256 random bits
	crcLength    = 6  // characters of base 62 that hold 32 bits
	prefix       = "cv_"
	maxLength    = 96
)

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// New generates a key. It returns the text, which is shown once and never stored, the id for lookups and
// the hash to store. An error comes from random.
func New(random io.Reader, kind Kind) (text, id string, hash [32]byte, err error) {
	drawn, err := draw(random, IDLength+secretLength)
	if err != nil {
		return "", "", hash, fmt.Errorf("random bits for an API key: %w", err)
	}
	id = drawn[:IDLength]
	text = join(kind, id, drawn[IDLength:])
	return text, id, Hash(text), nil
}

// NewSecret generates a new secret for a key that keeps its id. An error comes from random.
func NewSecret(random io.Reader, kind Kind, id string) (text string, hash [32]byte, err error) {
	secret, err := draw(random, secretLength)
	if err != nil {
		return "", hash, fmt.Errorf("random bits for an API key: %w", err)
	}
	text = join(kind, id, secret)
	return text, Hash(text), nil
}

func join(kind Kind, id, secret string) string {
	body := prefix + string(kind) + "_" + id + "_" + secret
	return body + checksum(body)
}

// Parse checks the form of a key's text, checksum included, and returns its kind and id. It detects a
// mistyped or truncated key, but does not know whether the key exists.
func Parse(text string) (kind Kind, id string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok || len(text) > maxLength {
		return "", "", false
	}
	word, rest, _ := strings.Cut(rest, "_")
	for _, k := range kinds {
		if word == string(k) {
			kind = k
		}
	}
	id, secret, _ := strings.Cut(rest, "_")
	if kind == "" || len(id) != IDLength || len(secret) != secretLength+crcLength {
		return "", "", false
	}
	if !base62(id) || !base62(secret) {
		return "", "", false
	}
	body := text[:len(text)-crcLength]
	if !sameChecksum(body, text[len(body):]) {
		return "", "", false
	}
	return kind, id, true
}

// draw reads n random characters of base 62, all equally likely.
func draw(random io.Reader, n int) (string, error) {
	// Bytes from 248 up would make the first characters of the alphabet likelier.
	const fair = 256 / len(alphabet) * len(alphabet)
	text := make([]byte, 0, n)
	var chunk [64]byte
	for {
		if _, err := io.ReadFull(random, chunk[:]); err != nil {
			return "", err
		}
		for _, b := range chunk {
			if int(b) < fair {
				text = append(text, alphabet[int(b)%len(alphabet)])
			}
			if len(text) == n {
				return string(text), nil
			}
		}
	}
}

func base62(text string) bool {
	for i := range len(text) {
		c := text[i]
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z') {
			return false
		}
	}
	return true
}

// checksum returns the CRC-32 (IEEE) of text in base 62, the most significant digit first.
func checksum(text string) string {
	sum := encodeCRC(text)
	return string(sum[:])
}

func sameChecksum(text, sum string) bool {
	want := encodeCRC(text)
	return sum == string(want[:])
}

func encodeCRC(text string) (out [crcLength]byte) {
	// crc32.ChecksumIEEE would copy the text to the heap.
	sum := ^uint32(0)
	for i := range len(text) {
		sum = crc32.IEEETable[byte(sum)^text[i]] ^ sum>>8
	}
	sum = ^sum
	for i := crcLength - 1; i >= 0; i-- {
		out[i] = alphabet[sum%uint32(len(alphabet))]
		sum /= uint32(len(alphabet))
	}
	return out
}
