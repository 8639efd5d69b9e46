package dataplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// AdminKeyFile holds a bare node's first key, below the data directory.
const AdminKeyFile = "admin.key"

// createFirstKey gives an unsecured store its first key. The file comes first
// and is durable before the key exists: a crash in between leaves a file whose
// key the next start proposes again, never a key nobody has seen.
func createFirstKey(ctx context.Context, dataDir string, c *cell.Cell) (string, error) {
	path := filepath.Join(dataDir, AdminKeyFile)
	text, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = writeKeyFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("admin key: %w", err)
	}
	_, id, ok := keyring.Parse(text)
	if !ok {
		return "", fmt.Errorf("admin key: %s does not hold a key; remove it to have a new one made", path)
	}
	hash := keyring.Hash(text)
	_, _, err = cell.Propose[*op.CreateKeyResult](ctx, c, &op.CreateKey{
		Meta:  &op.Meta{Principal: "first-start"},
		First: true,
		Key: &state.Key{
			Id:      id,
			Name:    "admin",
			Roles:   []string{string(tenancy.Admin)},
			Hash:    hash[:],
			Enabled: true,
		},
	})
	if api.CodeOf(err) == api.Conflict && c.State().Head().GetSecured() {
		// Another node of the cluster was first: this key opens nothing.
		return "", os.Remove(path)
	}
	if err != nil {
		return "", fmt.Errorf("admin key: %w", err)
	}
	return text, nil
}

func readKeyFile(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(content)), nil
}

// writeKeyFile makes a key and a file that holds it.
func writeKeyFile(path string) (text string, err error) {
	text, _, _, err = keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		return "", err
	}
	return text, durable.WriteFile(path, []byte(text+"\n"), 0o600)
}
