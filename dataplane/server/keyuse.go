package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// keyUse is what this node remembers of a key besides its record: when it was last
// used, how fast, and what the record says as those read it who authenticate. A log
// entry for each request would cost more than the request.
type keyUse struct {
	lastNs atomic.Int64 // Unix; 0 = not since the start
	rate   ratelimit.Bucket
	known  atomic.Pointer[knownKey]
}

// knownKey is a record as it was read, which is read again when it has changed, or the
// roles have that are not built in.
type knownKey struct {
	record *state.Key
	book   *state.ResourceIndex
	key    tenancy.Key
}

// keyUses is what is remembered of keys. Only those that exist are remembered, and those
// that have gone since are forgotten when as many new ones have come as there are: a key
// may be revoked at another node, which tells nobody which it was.
type keyUses struct {
	byID sync.Map     // key id -> *keyUse
	came atomic.Int64 // since the last time that some were forgotten
}

// keyUsesKept is how many new keys come at least before some are forgotten.
const keyUsesKept = 64

// of is what is remembered of a key that exists.
func (u *keyUses) of(id string) *keyUse {
	use, ok := u.byID.Load(id)
	if !ok {
		if use, ok = u.byID.LoadOrStore(id, new(keyUse)); !ok {
			u.came.Add(1)
		}
	}
	return use.(*keyUse)
}

// forget lets go of the keys that are gone, if it is worth to look for them.
func (u *keyUses) forget(store *state.Store) {
	came := u.came.Load()
	if came <= max(keyUsesKept, int64(store.Head().GetKeyRecords())) || !u.came.CompareAndSwap(came, 0) {
		return
	}
	u.byID.Range(func(id, _ any) bool {
		if store.Key(id.(string)) == nil {
			u.byID.Delete(id)
		}
		return true
	})
}

// lastUsedNs is when a key was last used here, 0 for not since the start.
func (s *Server) lastUsedNs(id string) int64 {
	if use, ok := s.keyUses.byID.Load(id); ok {
		return use.(*keyUse).lastNs.Load()
	}
	return 0
}

// keySource finds keys in a store.
type keySource struct {
	server *Server
	store  *state.Store
}

func (k keySource) Key(id string) (tenancy.Key, bool) {
	record := k.store.Key(id)
	if record == nil {
		return tenancy.Key{}, false
	}
	book, use := k.store.ResourceIndex(), k.server.keyUses.of(id)
	known := use.known.Load()
	if known == nil || known.record != record || known.book != book {
		known = &knownKey{record, book, readKey(record, book)}
		use.known.Store(known)
		k.server.keyUses.forget(k.store)
	}
	return known.key, true
}

// readKey is a key as it is authenticated. A role that is not there grants nothing.
func readKey(record *state.Key, book *state.ResourceIndex) tenancy.Key {
	key := convert.FromKeyRecord(record)
	key.Custom = customOf(key.Roles, book)
	return key
}

// customOf is what those of some roles grant that are not built in.
func customOf(of []tenancy.Role, book *state.ResourceIndex) (all []tenancy.Permission) {
	for _, role := range of {
		if !role.Valid() {
			all = append(all, convert.Granted(book.Resource(roles.kind, string(role)))...)
		}
	}
	return all
}

// used records when a request was authenticated with the key.
func (u *keyUse) used(now time.Time) { u.lastNs.Store(now.UnixNano()) }
