package view

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/dataplane/state"
)

// The feed has no events for API keys. Keys are few and seldom change, so the writer compares the key
// pointers of a snapshot with the pointers that it wrote last, and writes all keys anew if any differs.

const putKeySQL = `
INSERT INTO api_key (id, namespace, name, hash, roles, queue_scope, enabled, expires_ns, created_ns)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

// namespaceOf returns the store's namespace.
func namespaceOf(head *state.Head) string {
	namespace, _, _ := strings.Cut(head.GetGroup(), "/")
	return namespace
}

// behindKeys reports whether the file's keys or its namespace differ from the store's.
func (w *writer) behindKeys(snap *state.Snapshot) bool {
	return !w.keysShown || w.keysOf != namespaceOf(snap.Head()) || !slices.Equal(w.keys, snap.Keys())
}

// followKeys makes the file's API keys and namespace equal to the store's. It must be called inside a
// transaction.
func (w *writer) followKeys(snap *state.Snapshot) error {
	if !w.behindKeys(snap) {
		return nil
	}
	namespace := namespaceOf(snap.Head())
	if err := w.exec(w.dropKeys); err != nil {
		return err
	}
	for _, k := range snap.Keys() {
		if err := w.key(namespace, k); err != nil {
			return fmt.Errorf("API key %s: %w", k.Id, err)
		}
	}
	if err := w.exec(w.dropNamespace); err != nil {
		return err
	}
	if err := w.exec(w.putNamespace, namespace); err != nil {
		return err
	}
	w.keys, w.keysOf, w.keysShown = snap.Keys(), namespace, true
	return nil
}

// key writes the row of an API key.
func (w *writer) key(namespace string, k *state.Key) error {
	roles, err := listText(k.Roles)
	if err != nil {
		return err
	}
	var scope any
	if len(k.QueueScope) > 0 {
		if scope, err = listText(k.QueueScope); err != nil {
			return err
		}
	}
	return w.exec(w.putKey, k.Id, namespace, k.Name, hex.EncodeToString(k.Hash), roles, scope, k.Enabled, nullable(k.ExpiresNs), k.CreatedNs)
}
