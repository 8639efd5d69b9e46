package state

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// keyring is an immutable set of the API keys, shared by all readers.
type keyring struct {
	byID map[string]*Key
	list []*Key // by id
}

func newKeyring(keys map[string]*Key) *keyring {
	r := &keyring{byID: make(map[string]*Key, len(keys)), list: make([]*Key, 0, len(keys))}
	for id, key := range keys {
		r.byID[id] = key
		r.list = append(r.list, key)
	}
	slices.SortFunc(r.list, func(a, b *Key) int { return strings.Compare(a.Id, b.Id) })
	return r
}

// Key returns an API key by id as of the last commit, or nil if there is none. The caller must not change it.
func (s *Store) Key(id string) *Key { return s.keysRead.Load().byID[id] }

// Keys returns the API keys as of the last commit, in order of their ids. The caller must not change them.
func (s *Store) Keys() []*Key { return s.keysRead.Load().list }

// Keys returns the API keys as of the snapshot, in order of their ids. A key that changed since an earlier
// snapshot is a different *Key. The caller must not change them.
func (v *Snapshot) Keys() []*Key { return v.keys.list }

// Key returns an API key by id as the entry's earlier ops left it, or nil if there is none. The caller must
// not change it.
func (tx *Tx) Key(id string) *Key { return tx.s.keys[id] }

// Keys returns the API keys as the entry's earlier ops left them, in order of their ids. The caller must not
// change them.
func (tx *Tx) Keys() []*Key { return newKeyring(tx.s.keys).list }

// PutKey stores a copy of an API key under its id.
func (tx *Tx) PutKey(k *Key) error {
	if k.Id == "" {
		return tx.fail(fmt.Errorf("put an API key: it has no id"))
	}
	if tx.s.keys[k.Id] == nil {
		tx.head.KeyRecords++
	}
	tx.s.keys[k.Id] = proto.Clone(k).(*Key)
	tx.keysPut = true
	if err := put(tx.batch, apiKeyKey(k.Id), k); err != nil {
		return tx.fail(fmt.Errorf("put API key %q: %w", k.Id, err))
	}
	return nil
}

// DeleteKey removes an API key. It does nothing if there is none.
func (tx *Tx) DeleteKey(id string) error {
	if tx.s.keys[id] == nil {
		return nil
	}
	delete(tx.s.keys, id)
	tx.head.KeyRecords--
	tx.keysPut = true
	if err := tx.batch.Delete(apiKeyKey(id), nil); err != nil {
		return tx.fail(fmt.Errorf("delete API key %q: %w", id, err))
	}
	return nil
}
