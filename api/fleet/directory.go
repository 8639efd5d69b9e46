package fleet

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Directory holds the newest document of each namespace that this process follows, and authenticates requests
// by them. Gateways and hosts use it for every request, without a call to the control plane. It is safe for
// concurrent use.
type Directory struct {
	mu      sync.RWMutex
	entries map[string]*indexed  // by id of the namespace
	names   map[orgName]*indexed // open namespaces only
	keys    map[string]*keyRef   // by id of the key
	// unknownKeys has revoked and unknown keys, by id. Until the given time, requests with them are refused
	// without a wait for a document.
	unknownKeys map[string]time.Time
}

// orgName is the name of a namespace, which is unique within its organisation.
type orgName struct{ org, name string }

// indexed is an entry of the directory: a document and its keys. It does not change.
type indexed struct {
	doc  Doc
	keys map[string]tenancy.Key
}

// Key makes an entry the keyring.Source of its own namespace.
func (p *indexed) Key(id string) (tenancy.Key, bool) {
	if p == nil {
		return tenancy.Key{}, false
	}
	k, ok := p.keys[id]
	return k, ok
}

// keyRef counts the entries that contain a key: one for a namespace's key, several for an organisation's
// token.
type keyRef struct {
	count int
	last  *indexed // the newest entry with the key; it may have left the directory
	org   string
}

// NewDirectory returns an empty directory, which refuses every request.
func NewDirectory() *Directory {
	return &Directory{entries: map[string]*indexed{}, names: map[orgName]*indexed{}, keys: map[string]*keyRef{}}
}

// Put stores a document. The caller must not change the document's slices any more. Put returns false, and
// stores nothing, if the directory has the same or a newer document of the namespace.
func (dir *Directory) Put(d Doc) bool {
	p := newIndexed(d)
	dir.mu.Lock()
	defer dir.mu.Unlock()
	old := dir.entries[d.Namespace]
	if old != nil && old.doc.Number >= d.Number {
		return false
	}
	if old != nil {
		dir.forget(old)
	}
	dir.entries[d.Namespace] = p
	if d.Desired == Open {
		dir.names[orgName{d.Org, d.Name}] = p
	}
	for id := range p.keys {
		at := dir.keys[id]
		if at == nil {
			at = &keyRef{}
			dir.keys[id] = at
		}
		at.count++
		at.last, at.org = p, d.Org
		delete(dir.unknownKeys, id)
	}
	if old != nil && d.Desired == Open {
		dir.rememberRevoked(old)
	}
	return true
}

// forget removes an entry from the indexes. The caller holds the lock.
func (dir *Directory) forget(p *indexed) {
	name := orgName{p.doc.Org, p.doc.Name}
	if dir.names[name] == p { // another namespace may have the name by now
		delete(dir.names, name)
	}
	for id := range p.keys {
		at := dir.keys[id]
		if at.count--; at.count == 0 {
			delete(dir.keys, id)
		}
	}
}

// newIndexed indexes a document. A namespace that is not to be open has no keys, whatever the document
// says. A key with an invalid hash is left out.
func newIndexed(d Doc) *indexed {
	p := &indexed{doc: d}
	if d.Desired != Open {
		p.doc.Keys = nil
		return p
	}
	grants := d.grants()
	p.keys = make(map[string]tenancy.Key, len(d.Keys))
	for _, k := range d.Keys {
		if key, ok := k.tenant(grants); ok {
			p.keys[k.ID] = key
		}
	}
	return p
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

// Namespace returns the newest document of a namespace. The caller must not change its slices.
func (dir *Directory) Namespace(id string) (Doc, bool) {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	p := dir.entries[id]
	if p == nil {
		return Doc{}, false
	}
	return p.doc, true
}

// Docs returns the newest documents of all namespaces, absent ones included, sorted by id. The caller must
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

// Authenticate returns the principal of a credential, and the document of the namespace that the request is
// for. hint is the Corvo-Namespace header of the request, an id or a name. With a namespace's key it may be
// empty. With an organisation's token it selects the namespace.
//
// Authenticate does not check whether the namespace can be reached; see Doc.Ready. The error is UNAUTHORIZED
// for every fault of the credential, also if the namespace of the key is gone. With a valid credential it is
// FORBIDDEN if the hint names another namespace than that of the key, VALIDATION_ERROR if a token comes
// without a hint, and NOT_FOUND if the token's organisation has no such namespace. The directory does not
// know the token of an organisation without namespaces, so such a token is UNAUTHORIZED.
func (dir *Directory) Authenticate(credential, hint string, now time.Time) (tenancy.Principal, Doc, error) {
	kind, id, _ := keyring.Parse(credential)
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	at := dir.keys[id]
	if kind == keyring.Org && at != nil {
		return dir.authenticateOrg(at.org, id, credential, hint, now)
	}
	var p *indexed
	if at != nil {
		p = dir.entries[at.last.doc.Namespace]
	}
	key, err := keyring.Verify(p, credential, now, keyring.Namespace, keyring.Org)
	if err != nil {
		return tenancy.Principal{}, Doc{}, err
	}
	if hint != "" && hint != p.doc.Namespace && hint != p.doc.Name {
		return tenancy.Principal{}, Doc{}, api.Errorf(api.Forbidden,
			"this key opens another namespace than the header %s names: leave the header out, or use that namespace's key", api.NamespaceHeader)
	}
	return key.Principal(tenancy.NamespaceID(p.doc.Namespace)), p.doc, nil
}

// authenticateOrg authenticates a token of an organisation. The caller holds the lock.
func (dir *Directory) authenticateOrg(org, id, credential, hint string, now time.Time) (tenancy.Principal, Doc, error) {
	wanted := dir.wanted(org, hint)
	proof := wanted
	if wanted == nil {
		// Only a valid token of the organisation may learn whether a namespace exists.
		proof = dir.anyWith(org, id)
	}
	key, err := keyring.Verify(proof, credential, now, keyring.Org)
	switch {
	case err != nil:
		return tenancy.Principal{}, Doc{}, err
	case hint == "":
		return tenancy.Principal{}, Doc{}, api.Errorf(api.ValidationError,
			"a cloud token needs a namespace: name one by id or name in the header %s", api.NamespaceHeader)
	case wanted == nil:
		return tenancy.Principal{}, Doc{}, api.Errorf(api.NotFound,
			"the organisation has no namespace %q: give the id or name of an existing one in the header %s", hint, api.NamespaceHeader)
	}
	return key.Principal(tenancy.NamespaceID(wanted.doc.Namespace)), wanted.doc, nil
}

// wanted returns the open namespace of an organisation by id, or else by name.
func (dir *Directory) wanted(org, hint string) *indexed {
	if p := dir.entries[hint]; p != nil && p.doc.Org == org && p.doc.Desired == Open {
		return p
	}
	return dir.names[orgName{org, hint}]
}

// anyWith returns an entry of the organisation that contains the key, or nil. It scans all entries, because
// only a request for a namespace that does not exist needs it.
func (dir *Directory) anyWith(org, id string) *indexed {
	for _, p := range dir.entries {
		if _, ok := p.keys[id]; ok && p.doc.Org == org {
			return p
		}
	}
	return nil
}
