package state

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// keyring is the API keys as readers see them; never changed once published.
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

// Key is an API key by id, from memory; nil when there is none. Read only.
func (s *Store) Key(id string) *Key { return s.keysRead.Load().byID[id] }

// Keys lists the API keys by id. Read only.
func (s *Store) Keys() []*Key { return s.keysRead.Load().list }

// Keys lists the API keys by id as of the snapshot. A key that has changed since an
// earlier snapshot is another *Key. Read only.
func (v *Snapshot) Keys() []*Key { return v.keys.list }

// Key is an API key by id as the entry's earlier ops left it; nil when there is
// none. Read only.
func (tx *Tx) Key(id string) *Key { return tx.s.keys[id] }

// Keys lists the API keys by id as the entry's earlier ops left them. Read only.
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

// DeleteKey removes an API key; it does nothing where there is none.
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
