package token

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

// MaxSetKeys is the largest number of keys in a set that ParseSet accepts: the signing keys, the retired ones whose
// signatures are still in use, and those that ParseSet skips.
const MaxSetKeys = 64

// ErrUnknownKey means that the set does not hold the signing key. A process that follows the control
// plane's keys must fetch them again before it finally refuses the signature.
var ErrUnknownKey = errors.New("it is signed by an unknown key")

// Key is a signing key. Its ID is the JWK thumbprint of the public half (RFC 7638).
type Key struct {
	ID      string
	Private ed25519.PrivateKey
}

// NewKey generates a key. An error comes from random.
func NewKey(random io.Reader) (Key, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return Key{}, fmt.Errorf("random bits for a signing key: %w", err)
	}
	return KeyFromSeed(seed)
}

// KeyFromSeed derives the key from a seed of ed25519.SeedSize bytes. It refuses a seed of another length.
func KeyFromSeed(seed []byte) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("the seed of a signing key has %d bytes: it takes %d", len(seed), ed25519.SeedSize)
	}
	private := ed25519.NewKeyFromSeed(seed)
	return Key{ID: thumbprint(private.Public().(ed25519.PublicKey)), Private: private}, nil
}

// Public returns the public half, which a Set holds.
func (k Key) Public() ed25519.PublicKey { return k.Private.Public().(ed25519.PublicKey) }

// Seed returns the seed from which KeyFromSeed derives the key.
func (k Key) Seed() []byte { return k.Private.Seed() }

func (k Key) validate() error {
	if k.ID == "" || len(k.Private) != ed25519.PrivateKeySize {
		return errors.New("this is no signing key: make one with NewKey or KeyFromSeed")
	}
	return nil
}

// Set is a set of public keys whose signatures are trusted. It is immutable. The zero Set trusts no key.
type Set struct {
	keys map[string]ed25519.PublicKey // by id
}

// NewSet returns a set of keys. It panics if a key does not have the length of an Ed25519 key.
func NewSet(keys ...ed25519.PublicKey) Set {
	s := Set{keys: make(map[string]ed25519.PublicKey, len(keys))}
	for _, k := range keys {
		if len(k) != ed25519.PublicKeySize {
			panic(fmt.Sprintf("a public key has %d bytes, not %d", len(k), ed25519.PublicKeySize))
		}
		s.keys[thumbprint(k)] = slices.Clone(k)
	}
	return s
}

// Len returns the number of keys.
func (s Set) Len() int { return len(s.keys) }

// Only returns a set with just the key of that id, or the empty set.
func (s Set) Only(id string) Set {
	k, ok := s.keys[id]
	if !ok {
		return Set{}
	}
	return Set{keys: map[string]ed25519.PublicKey{id: k}}
}

// Signer returns the id of the key that a document's signature names, or "". It does not check the
// signature.
func Signer(signature string) string {
	id, _, ok := cut(signature)
	if !ok {
		return ""
	}
	return id
}

// jwk is a public key in the form of RFC 8037. The first three fields are in the order of a thumbprint.
type jwk struct {
	Crv string `json:"crv"`
	Kty string `json:"kty"`
	X   string `json:"x"`
	Kid string `json:"kid,omitempty"`
	Use string `json:"use,omitempty"`
	Alg string `json:"alg,omitempty"`
}

type jwks struct {
	Keys []jwk `json:"keys"`
}

const (
	keyType = "OKP"
	curve   = "Ed25519"
)

// thumbprint returns the id of a key by RFC 7638: the hash of its required members in the order of their
// names.
func thumbprint(k ed25519.PublicKey) string {
	text, err := json.Marshal(jwk{Crv: curve, Kty: keyType, X: base64.RawURLEncoding.EncodeToString(k)})
	if err != nil {
		panic(err) // strings always encode
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// JWKS encodes the set as a JSON Web Key Set. Equal sets give equal bytes.
func (s Set) JWKS() []byte {
	out := jwks{Keys: make([]jwk, 0, len(s.keys))}
	for _, id := range slices.Sorted(maps.Keys(s.keys)) {
		x := base64.RawURLEncoding.EncodeToString(s.keys[id])
		out.Keys = append(out.Keys, jwk{Crv: curve, Kty: keyType, X: x, Kid: id, Use: "sig", Alg: algorithm})
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings always encode
	}
	return text
}

// ParseSet parses a JSON Web Key Set. It skips keys of other types and curves, so that a newer control
// plane can publish them. An Ed25519 key that is damaged, or whose kid is not its thumbprint, is an
// error, and so are more than MaxSetKeys keys.
func ParseSet(text []byte) (Set, error) {
	var in jwks
	if err := json.Unmarshal(text, &in); err != nil {
		return Set{}, fmt.Errorf("this is no JSON Web Key Set: %w", err)
	}
	if in.Keys == nil {
		return Set{}, errors.New("this is no JSON Web Key Set: it has no list of keys")
	}
	if len(in.Keys) > MaxSetKeys {
		return Set{}, fmt.Errorf("the key set has %d keys: at most %d", len(in.Keys), MaxSetKeys)
	}
	var keys []ed25519.PublicKey
	for i, k := range in.Keys {
		if k.Kty != keyType || k.Crv != curve {
			continue
		}
		x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return Set{}, fmt.Errorf("key %d of the key set is damaged: its x is not %d bytes in base64url", i, ed25519.PublicKeySize)
		}
		if id := thumbprint(x); k.Kid != id {
			return Set{}, fmt.Errorf("key %d of the key set is called %q, and its thumbprint is %s", i, k.Kid, id)
		}
		keys = append(keys, x)
	}
	return NewSet(keys...), nil
}

// documentDomain is prepended to a document before it is signed. A token's signed text has only base64url and
// dots, so no signature is valid for both a document and a token.
const documentDomain = "corvo document v1\x00"

// SignDocument returns a detached signature of a document: the key's id, a dot, and the signature in
// base64url. It panics if k does not come from NewKey or KeyFromSeed.
func SignDocument(k Key, doc []byte) string {
	signature := ed25519.Sign(k.Private, inDomain(doc))
	return k.ID + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// VerifyDocument checks that a key of the set signed exactly these bytes. Every error is an *api.Error
// UNAUTHORIZED. errors.Is(err, ErrUnknownKey) reports that a newer set may hold the key.
func (s Set) VerifyDocument(doc []byte, signature string) error {
	id, text, ok := cut(signature)
	if !ok {
		return api.Errorf(api.Unauthorized, "the document's signature is not a key's id, a dot and %d bytes in base64url", ed25519.SignatureSize)
	}
	key, ok := s.keys[id]
	if !ok {
		return api.Wrap(ErrUnknownKey, api.Unauthorized, "the document is signed by a key that is not trusted")
	}
	if !ed25519.Verify(key, inDomain(doc), text) {
		return api.Errorf(api.Unauthorized, "the document is not what was signed")
	}
	return nil
}

func inDomain(doc []byte) []byte {
	return append(append(make([]byte, 0, len(documentDomain)+len(doc)), documentDomain...), doc...)
}

// cut splits a document's signature into the key's id and the decoded signature. ok reports that the decoded
// signature has the length of an Ed25519 signature.
func cut(signature string) (id string, raw []byte, ok bool) {
	id, text, found := strings.Cut(signature, ".")
	if !found || len(text) != base64.RawURLEncoding.EncodedLen(ed25519.SignatureSize) {
		return "", nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return id, raw, err == nil && len(raw) == ed25519.SignatureSize
}
