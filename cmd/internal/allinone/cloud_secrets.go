package allinone

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy/keyring"
)

// secretsDir is the directory below the data directory that holds the secrets of the cloud's own parts, one a
// file.
const secretsDir = "secrets"

// Secret reads the credential in a file, and creates it if the file does not exist. Secret makes the file
// durable before it returns the credential, so that a crash leaves a file whose credential the next start
// registers, never a registered credential that no file holds.
func Secret(path string, kind keyring.Kind) (text string, err error) {
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := durable.MakeDir(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if text, _, _, err = keyring.New(rand.Reader, kind); err != nil {
			return "", err
		}
		return text, durable.WriteFile(path, []byte(text+"\n"), 0o600)
	case err != nil:
		return "", err
	}
	text = strings.TrimSpace(string(content))
	if got, _, ok := keyring.Parse(text); !ok || got != kind {
		return "", fmt.Errorf("%s does not hold a credential of kind %s: remove %s and start again to create a new one", path, kind, path)
	}
	return text, nil
}
