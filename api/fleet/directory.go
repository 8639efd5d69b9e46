package fleet

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Directory holds the newest documents of the namespaces and organisations that this process follows, and authenticates
// requests by them. Gateways and hosts use it for every request, without a call to the control plane. It is safe for
// concurrent use.
type Directory struct {
	changes atomic.Uint64 // see Changes

	mu      sync.RWMutex
	entries map[string]*indexed  // placements by id of the namespace
	names   map[orgName]*indexed // open namespaces only
	keys    map[string]*keySet   // by id of the namespace
	tokens  map[string]*keySet   // by id of the organisation
	open    map[string]int       // number of open namespaces, by organisation
	// owners holds the keys and tokens of the documents by their ids.
	owners map[keyID]*keySet
	// unknownKeys has revoked and unknown keys, by id. Until the given time, requests with them are refused
	// without a wait for a document.
	unknownKeys map[string]time.Time
}

// orgName is the name of a namespace, which is unique within its organisation.
type orgName struct{ org, name string }

// keyID is the id of a key of a namespace or of a token of an organisation.
type keyID struct {
	kind keyring.Kind
	id   string
}

// indexed is a placement in the directory. It does not change.
type indexed struct{ doc Doc }

// keySet holds the keys of a namespace or the tokens of an organisation. It does not change.
type keySet struct {
	kind   keyring.Kind // keyring.Namespace or keyring.Org
	owner  string       // id of the namespace or organisation
	number int64        // of the document
	keys   map[string]tenancy.Key
}

// Key makes a keySet a keyring.Source; that of nil is empty.
func (k *keySet) Key(id string) (tenancy.Key, bool) {
	if k == nil {
		return tenancy.Key{}, false
	}
	key, ok := k.keys[id]
	return key, ok
}

// NewDirectory returns an empty directory, which refuses every request.
func NewDirectory() *Directory {
	return &Directory{
		entries: map[string]*indexed{}, names: map[orgName]*indexed{}, keys: map[string]*keySet{}, tokens: map[string]*keySet{},
		open: map[string]int{}, owners: map[keyID]*keySet{},
	}
}

// Changes returns a number that rises with every document that Put stores. A caller that compares it before and after
// learns whether the documents have changed meanwhile.
func (dir *Directory) Changes() uint64 { return dir.changes.Load() }

// Put stores a document. The caller must not change the document's slices any more. Put returns false, and
// stores nothing, if the directory has the same or a newer document of the kind and subject. With the placement of a
// namespace that is not to be open go its keys, and with the last open namespace of an organisation go its tokens: the
// control plane sends both again before the next placement that needs them.
func (dir *Directory) Put(d Doc) (changed bool) {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	for _, part := range d.parts() {
		stored := false
		switch part.Kind {
		case KindPlacement:
			stored = dir.putPlacement(part)
		case KindKeys:
			stored = putKeys(dir, dir.keys, newKeySet(keyring.Namespace, part.Namespace, part))
		case KindTokens:
			stored = putKeys(dir, dir.tokens, newKeySet(keyring.Org, part.Org, part))
		}
		changed = changed || stored
	}
	if changed {
		dir.changes.Add(1)
	}
	return changed
}

// putPlacement stores the placement of a namespace. The caller holds the lock.
func (dir *Directory) putPlacement(d Doc) bool {
	old := dir.entries[d.Namespace]
	if old != nil && old.doc.Number >= d.Number {
		return false
	}
	p := &indexed{doc: d}
	dir.entries[d.Namespace] = p
	if d.Desired == Open {
		dir.open[d.Org]++
	}
	if old != nil && old.doc.Desired == Open {
		dir.open[old.doc.Org]--
		if name := (orgName{old.doc.Org, old.doc.Name}); dir.names[name] == old { // another namespace may have the name by now
			delete(dir.names, name)
		}
		if dir.open[old.doc.Org] == 0 {
			delete(dir.open, old.doc.Org)
			dir.forget(dir.tokens, old.doc.Org)
		}
	}
	if d.Desired == Open {
		dir.names[orgName{d.Org, d.Name}] = p
	} else {
		dir.forget(dir.keys, d.Namespace)
	}
	return true
}

// forget removes the keys of a namespace or the tokens of an organisation. The caller holds the lock.
func (dir *Directory) forget(from map[string]*keySet, owner string) {
	old := from[owner]
	delete(from, owner)
	for id := range old.all() {
		delete(dir.owners, keyID{old.kind, id})
	}
}

// all returns the keys of a set; nil for none.
func (k *keySet) all() map[string]tenancy.Key {
	if k == nil {
		return nil
	}
	return k.keys
}

// putKeys stores the keys of a namespace or the tokens of an organisation. Requests with those that are gone are refused
// without a wait. The caller holds the lock.
func putKeys(dir *Directory, all map[string]*keySet, now *keySet) bool {
	old := all[now.owner]
	if old != nil && old.number >= now.number {
		return false
	}
	for id := range old.all() {
		delete(dir.owners, keyID{now.kind, id})
		if _, stays := now.keys[id]; !stays {
			dir.addUnknown(id, time.Now().Add(UnknownKeyTTL))
		}
	}
	for id := range now.keys {
		dir.owners[keyID{now.kind, id}] = now
		delete(dir.unknownKeys, id)
	}
	all[now.owner] = now
	return true
}

// newKeySet indexes the keys of a document. A key with an invalid hash is left out.
func newKeySet(kind keyring.Kind, owner string, d Doc) *keySet {
	set := &keySet{kind: kind, owner: owner, number: d.Number, keys: make(map[string]tenancy.Key, len(d.Keys))}
	grants := d.grants()
	for _, k := range d.Keys {
		if key, ok := k.tenant(grants); ok {
			set.keys[k.ID] = key
		}
	}
	return set
}

// usable returns the set with a key of a tenant, or nil if no document has it, or if the namespace is not open or the
// organisation has no open namespace, so that a document with one may still be on its way. The caller holds the lock.
func (dir *Directory) usable(kind keyring.Kind, id string) *keySet {
	set := dir.owners[keyID{kind, id}]
	switch {
	case set == nil:
	case kind == keyring.Org && dir.open[set.owner] > 0:
		return set
	case kind == keyring.Namespace:
		if p := dir.entries[set.owner]; p != nil && p.doc.Desired == Open {
			return set
		}
	}
	return nil
}

// grants returns the permissions of the document's custom roles, by name. It leaves out permissions that are
// not of the data plane, and roles with an invalid name or the name of a built-in role.
func (d Doc) grants() map[string][]tenancy.Permission {
	all := make(map[string][]tenancy.Permission, len(d.Roles))
	for _, r := range d.Roles {
		if tenancy.CheckRoleName(r.Name) != nil {
			continue
		}
		for _, word := range r.Permissions {
			if p := tenancy.Permission(word); p.OfDataPlane() {
				all[r.Name] = append(all[r.Name], p)
			}
		}
	}
	return all
}

// tenant converts a key to a tenancy.Key. A role that is neither built in nor in grants adds no permission,
// so that requests that need the role are refused with 403. The key itself stays valid, because a worker that
// gets 401 gives up.
func (k Key) tenant(grants map[string][]tenancy.Permission) (tenancy.Key, bool) {
	key := tenancy.Key{ID: k.ID, Name: k.Name, Enabled: true, CreatedAt: time.Unix(0, k.CreatedNs)}
	if k.ID == "" || len(k.Hash) != len(key.Hash) {
		return tenancy.Key{}, false
	}
	copy(key.Hash[:], k.Hash)
	if k.ExpiresNs != 0 {
		key.ExpiresAt = time.Unix(0, k.ExpiresNs)
	}
	for _, r := range k.Roles {
		key.Roles = append(key.Roles, tenancy.Role(r))
		key.Custom = append(key.Custom, grants[r]...)
	}
	for _, g := range k.QueueScope {
		key.QueueScope = append(key.QueueScope, tenancy.Glob(g))
	}
	return key, true
}

// Namespace returns the newest placement of a namespace. The caller must not change its slices.
func (dir *Directory) Namespace(id string) (Doc, bool) {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	p := dir.entries[id]
	if p == nil {
		return Doc{}, false
	}
	return p.doc, true
}

// Hold returns Doc.Hold of the newest placement of a namespace; "" = there is none.
func (dir *Directory) Hold(id string) string {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	if p := dir.entries[id]; p != nil {
		return p.doc.Hold
	}
	return ""
}

// Docs returns the newest placements of all namespaces, absent ones included, sorted by id. The caller must
// not change their slices.
func (dir *Directory) Docs() []Doc {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	all := make([]Doc, 0, len(dir.entries))
	for _, p := range dir.entries {
		all = append(all, p.doc)
	}
	slices.SortFunc(all, func(x, y Doc) int { return strings.Compare(x.Namespace, y.Namespace) })
	return all
}

// Authenticate returns the principal of a credential, and the placement of the namespace that the request is
// for. hint is the Corvo-Namespace header of the request, an id or a name. With a namespace's key it may be
// empty. With an organisation's token it selects the namespace.
//
// Authenticate does not check whether the namespace can be reached; see Doc.Ready. The error is UNAUTHORIZED
// for every fault of the credential, also if the namespace of the key is gone. With a valid credential it is
// FORBIDDEN if the hint names another namespace than that of the key, VALIDATION_ERROR if a token comes
// without a hint, and NOT_FOUND if the token's organisation has no such namespace. The token of an organisation
// without an open namespace is UNAUTHORIZED.
func (dir *Directory) Authenticate(credential, hint string, now time.Time) (tenancy.Principal, Doc, error) {
	kind, id, _ := keyring.Parse(credential)
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	set := dir.usable(kind, id)
	key, err := keyring.Verify(set, credential, now, keyring.Namespace, keyring.Org)
	if err != nil {
		return tenancy.Principal{}, Doc{}, err
	}
	if kind == keyring.Org {
		return dir.choose(set.owner, hint, key)
	}
	p := dir.entries[set.owner]
	if hint != "" && hint != p.doc.Namespace && hint != p.doc.Name {
		return tenancy.Principal{}, Doc{}, api.Errorf(api.Forbidden,
			"this key opens another namespace than the header %s names: leave the header out, or use that namespace's key", api.NamespaceHeader)
	}
	return key.Principal(tenancy.NamespaceID(p.doc.Namespace)), p.doc, nil
}

// choose returns the principal of an organisation's token in the namespace that a hint names. The caller holds the lock.
func (dir *Directory) choose(org, hint string, token tenancy.Key) (tenancy.Principal, Doc, error) {
	wanted := dir.wanted(org, hint)
	switch {
	case hint == "":
		return tenancy.Principal{}, Doc{}, api.Errorf(api.ValidationError,
			"a cloud token needs a namespace: name one by id or name in the header %s", api.NamespaceHeader)
	case wanted == nil:
		return tenancy.Principal{}, Doc{}, api.Errorf(api.NotFound,
			"the organisation has no namespace %q: give the id or name of an existing one in the header %s", hint, api.NamespaceHeader)
	}
	return token.Principal(tenancy.NamespaceID(wanted.doc.Namespace)), wanted.doc, nil
}

// wanted returns the open namespace of an organisation by id, or else by name.
func (dir *Directory) wanted(org, hint string) *indexed {
	if p := dir.entries[hint]; p != nil && p.doc.Org == org && p.doc.Desired == Open {
		return p
	}
	return dir.names[orgName{org, hint}]
}
