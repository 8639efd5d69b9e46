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

// keyUse is this node's own data about a key: the time of its last use, its rate, and its decoded record. It
// is not replicated, because a log entry for each request would cost more than the request.
type keyUse struct {
	lastNs atomic.Int64 // Unix; 0 = not since the start
	rate   ratelimit.Bucket
	known  atomic.Pointer[knownKey]
}

// knownKey is a decoded record. It is decoded again when the record or the custom roles have changed.
type knownKey struct {
	record    *state.Key
	resources *state.ResourceIndex
	key       tenancy.Key
}

// keyUses has the data of existing keys. A key may be revoked at another node, which does not notify this
// one. So keyUses removes the data of revoked keys once the keys that were new here outnumber the existing
// keys and exceed keyUsesKept.
type keyUses struct {
	byID sync.Map     // key id -> *keyUse
	came atomic.Int64 // new keys since the last removal
}

// keyUsesKept is the largest number of new keys that causes no removal.
const keyUsesKept = 64

// of returns the data of an existing key and adds it at the key's first use here.
func (u *keyUses) of(id string) *keyUse {
	use, ok := u.byID.Load(id)
	if !ok {
		if use, ok = u.byID.LoadOrStore(id, new(keyUse)); !ok {
			u.came.Add(1)
		}
	}
	return use.(*keyUse)
}

// forget removes the data of revoked keys if enough new keys have come since the last time.
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

// lastUsedNs returns the time of a key's last use on this node, or 0 if it was not used since the start.
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
	resources, use := k.store.ResourceIndex(), k.server.keyUses.of(id)
	known := use.known.Load()
	if known == nil || known.record != record || known.resources != resources {
		known = &knownKey{record, resources, readKey(record, resources)}
		use.known.Store(known)
		k.server.keyUses.forget(k.store)
	}
	return known.key, true
}

// readKey decodes a key for authentication. A role that does not exist grants nothing.
func readKey(record *state.Key, resources *state.ResourceIndex) tenancy.Key {
	key := convert.FromKeyRecord(record)
	key.Custom = customOf(key.Roles, resources)
	return key
}

// customOf returns the permissions that the custom roles in a list of roles grant.
func customOf(of []tenancy.Role, resources *state.ResourceIndex) (all []tenancy.Permission) {
	for _, role := range of {
		if !role.Valid() {
			all = append(all, convert.Granted(resources.Resource(roles.kind, string(role)))...)
		}
	}
	return all
}

// used records when a request was authenticated with the key.
func (u *keyUse) used(now time.Time) { u.lastNs.Store(now.UnixNano()) }
