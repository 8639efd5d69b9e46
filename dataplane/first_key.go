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

// AdminKeyFile is the name of the file in the data directory that holds a bare node's first key.
const AdminKeyFile = "admin.key"

// createFirstKey creates the first key of a store that is not secured, or returns "" if another node has
// created it. It writes the file durably before it creates the key. So a crash in between leaves a file whose
// key the next start proposes again, and never a key that nobody has seen.
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
		// Another node of the cluster was first, so this key is useless.
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

// writeKeyFile creates a key and writes it to a file.
func writeKeyFile(path string) (text string, err error) {
	text, _, _, err = keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		return "", err
	}
	return text, durable.WriteFile(path, []byte(text+"\n"), 0o600)
}
