package cluster

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
)

// TokenFile is the file with the token, inside Config.DataDir, readable only by its owner.
const TokenFile = "join-token"

// These constants bound a token's text, in bytes.
const (
	MinToken = 32
	MaxToken = 1 << 10
)

const (
	tokenPrefix      = "cvjoin_"
	tokenSecretBytes = 32
	tokenPrintBytes  = 8 // of the authority's fingerprint
	tokenSumBytes    = 4
)

var tokenEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// secret is the content of a token. The trust between members rests on it.
type secret struct {
	text string // as given to a joining node
	key  []byte // the authority is derived from it
}

// createSecret creates a token: the secret, the beginning of its authority's fingerprint, and a checksum, so
// that a copy that is cut short is recognised and not taken for another cluster's token.
func createSecret() (secret, error) {
	key := make([]byte, tokenSecretBytes)
	rand.Read(key) // never fails, see crypto/rand
	ca, err := newAuthority(key)
	if err != nil {
		return secret{}, err
	}
	body := tokenPrefix + strings.ToLower(tokenEncoding.EncodeToString(key)) + "_" + ca.fingerprint()[:2*tokenPrintBytes]
	return secret{text: body + tokenSum(body), key: key}, nil
}

func tokenSum(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:tokenSumBytes])
}

// CheckToken returns VALIDATION_ERROR for a text that cannot be a cluster's join token.
func CheckToken(text string) error {
	_, err := readSecret(text)
	return err
}

// readSecret reads a generated token, which must be complete, or any long enough secret of an operator.
func readSecret(text string) (secret, error) {
	text = strings.TrimSpace(text)
	switch {
	case len(text) < MinToken:
		return secret{}, api.Errorf(api.ValidationError, "the join token has %d bytes, fewer than %d: take the text of a member's %s, or make one with `openssl rand -hex 32`", len(text), MinToken, TokenFile)
	case len(text) > MaxToken:
		return secret{}, api.Errorf(api.ValidationError, "the join token has %d bytes, more than %d: take the text of a member's %s, and nothing else", len(text), MaxToken, TokenFile)
	case strings.HasPrefix(text, tokenPrefix):
		return readGenerated(text)
	}
	return secret{text: text, key: []byte(text)}, nil
}

func readGenerated(text string) (secret, error) {
	damaged := api.Errorf(api.ValidationError, "the join token is damaged: copy it whole from a member's %s", TokenFile)
	cut := len(text) - 2*tokenSumBytes
	if tokenSum(text[:cut]) != text[cut:] {
		return secret{}, damaged
	}
	encoded, print, ok := strings.Cut(text[len(tokenPrefix):cut], "_")
	key, err := tokenEncoding.DecodeString(strings.ToUpper(encoded))
	if !ok || err != nil || len(key) != tokenSecretBytes {
		return secret{}, damaged
	}
	ca, err := newAuthority(key)
	if err != nil {
		return secret{}, err
	}
	if !strings.HasPrefix(ca.fingerprint(), print) || len(print) != 2*tokenPrintBytes {
		return secret{}, damaged
	}
	return secret{text: text, key: key}, nil
}

// loadSecret returns the token of this process: the given one, or else the one on disk, or else, if mint is
// set, a new one. It is on disk when loadSecret returns.
func loadSecret(dir, given string, mint bool) (secret, error) {
	path := filepath.Join(dir, TokenFile)
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return secret{}, fmt.Errorf("read the join token: %w", err)
	}
	have := err == nil
	var s secret
	switch {
	case given != "":
		if s, err = readSecret(given); err != nil {
			return secret{}, err
		}
		if have && strings.TrimSpace(string(kept)) != s.text {
			return secret{}, api.Errorf(api.Conflict, "the join token given is not the one in %s, which this node's cluster uses: give that one, or none", path)
		}
	case have:
		if s, err = readSecret(string(kept)); err != nil {
			return secret{}, fmt.Errorf("%s: %w", path, err)
		}
	case mint:
		if s, err = createSecret(); err != nil {
			return secret{}, err
		}
	default:
		return secret{}, api.Errorf(api.ValidationError, "a node that joins needs the cluster's join token: it is in %[1]s in the data directory of each member (of a control plane in controlplane/%[1]s)", TokenFile)
	}
	if have {
		return s, nil
	}
	if err := durable.WriteFile(path, []byte(s.text+"\n"), 0o600); err != nil {
		return secret{}, fmt.Errorf("keep the join token: %w", err)
	}
	return s, nil
}
