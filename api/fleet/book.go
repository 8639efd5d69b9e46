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

// Book is the newest document of every namespace, and who may enter where by
// them. Gateways and hosts ask it at every request; nobody calls the control plane
// for it. Its methods may be called by any goroutine.
type Book struct {
	mu    sync.RWMutex
	pages map[string]*page      // by id of the namespace
	names map[orgName]*page     // those that are open
	keys  map[string]*appearing // by id of the key
	// strangers are ids of keys that are not known, until when that need not be
	// looked into: those that have ended, and those that were waited for in vain.
	strangers map[string]time.Time
}

// orgName is a namespace's name, which is one within its organisation.
type orgName struct{ org, name string }

// page is a document as it is asked. It does not change.
type page struct {
	doc  Doc
	keys map[string]tenancy.Key
}

// Key makes a page the keyring.Source of its own namespace.
func (p *page) Key(id string) (tenancy.Key, bool) {
	if p == nil {
		return tenancy.Key{}, false
	}
	k, ok := p.keys[id]
	return k, ok
}

// appearing is where a key stands: one of a namespace on one page, a token of an
// organisation on many of its.
type appearing struct {
	pages int
	last  *page // that was written with it, maybe no longer in the book
	org   string
}

// NewBook is an empty book: it lets nobody in.
func NewBook() *Book {
	return &Book{pages: map[string]*page{}, names: map[orgName]*page{}, keys: map[string]*appearing{}}
}

// Put takes a document, unless the book has one as new of that namespace.
func (b *Book) Put(d Doc) bool {
	p := newPage(d)
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.pages[d.Namespace]
	if old != nil && old.doc.Number >= d.Number {
		return false
	}
	if old != nil {
		b.forget(old)
	}
	b.pages[d.Namespace] = p
	if d.Desired == Open {
		b.names[orgName{d.Org, d.Name}] = p
	}
	for id := range p.keys {
		at := b.keys[id]
		if at == nil {
			at = &appearing{}
			b.keys[id] = at
		}
		at.pages++
		at.last, at.org = p, d.Org
		delete(b.strangers, id)
	}
	if old != nil && d.Desired == Open {
		b.revoked(old)
	}
	return true
}

// forget takes out what a page is found by. The lock is held.
func (b *Book) forget(p *page) {
	name := orgName{p.doc.Org, p.doc.Name}
	if b.names[name] == p { // the name may be another's by now
		delete(b.names, name)
	}
	for id := range p.keys {
		at := b.keys[id]
		if at.pages--; at.pages == 0 {
			delete(b.keys, id)
		}
	}
}

// newPage reads a document. Where the namespace is not to be open nobody enters,
// whatever keys it names; nor does one whose hash is none.
func newPage(d Doc) *page {
	p := &page{doc: d}
	if d.Desired != Open {
		p.doc.Keys = nil
		return p
	}
	p.keys = make(map[string]tenancy.Key, len(d.Keys))
	grants := d.grants()
	for _, k := range d.Keys {
		if key, ok := k.tenant(grants); ok {
			p.keys[k.ID] = key
		}
	}
	return p
}

// grants are the permissions of the document's custom roles, by name. A permission that
// this binary does not know is left out, and so is a role with a built-in one's name.
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

// tenant is a key as tenancy knows it. A role that is neither built in nor in grants adds
// nothing to the key's rights, so that what only it would grant is refused with 403. The
// key is not shut out, because a worker that gets 401 gives up.
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

// Namespace is the newest document of a namespace, by its id. The caller does not
// change its slices.
func (b *Book) Namespace(id string) (Doc, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	p := b.pages[id]
	if p == nil {
		return Doc{}, false
	}
	return p.doc, true
}

// Docs are the newest documents of all namespaces, those to be absent too, by id.
func (b *Book) Docs() []Doc {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]Doc, 0, len(b.pages))
	for _, p := range b.pages {
		all = append(all, p.doc)
	}
	slices.SortFunc(all, func(x, y Doc) int { return strings.Compare(x.Namespace, y.Namespace) })
	return all
}

// Enter says who a credential is and which namespace it opens. A namespace's key
// opens that one; hint, the request's Corvo-Namespace, may be left out. With an
// organisation's token hint says which of its namespaces, by id or name.
//
// The document says whether the namespace can be reached: Enter does not ask. It
// fails with UNAUTHORIZED whatever is wrong with the credential, or when the
// namespace of a key is no more; with FORBIDDEN, VALIDATION_ERROR and NOT_FOUND
// for a hint that a good credential does not go with. A token of an organisation
// without a namespace is not known here, so it is UNAUTHORIZED.
func (b *Book) Enter(credential, hint string, now time.Time) (tenancy.Principal, Doc, error) {
	kind, id, _ := keyring.Parse(credential)
	b.mu.RLock()
	defer b.mu.RUnlock()
	at := b.keys[id]
	if kind == keyring.Org && at != nil {
		return b.enterOrg(at.org, id, credential, hint, now)
	}
	var p *page
	if at != nil {
		p = b.pages[at.last.doc.Namespace]
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

// enterOrg is Enter for a token of an organisation. The lock is held.
func (b *Book) enterOrg(org, id, credential, hint string, now time.Time) (tenancy.Principal, Doc, error) {
	wanted := b.wanted(org, hint)
	proof := wanted
	if wanted == nil {
		// Whether a namespace exists is told only to who is of the organisation.
		proof = b.anyWith(org, id)
	}
	key, err := keyring.Verify(proof, credential, now, keyring.Org)
	switch {
	case err != nil:
		return tenancy.Principal{}, Doc{}, err
	case hint == "":
		return tenancy.Principal{}, Doc{}, api.Errorf(api.ValidationError,
			"a cloud token opens all namespaces of its organisation: say which in the header %s, by id or name", api.NamespaceHeader)
	case wanted == nil:
		return tenancy.Principal{}, Doc{}, api.Errorf(api.NotFound,
			"the organisation has no namespace %q: give the header %s the id or name of one it has", hint, api.NamespaceHeader)
	}
	return key.Principal(tenancy.NamespaceID(wanted.doc.Namespace)), wanted.doc, nil
}

// wanted is the open namespace of an organisation with that id, or else name.
func (b *Book) wanted(org, hint string) *page {
	if p := b.pages[hint]; p != nil && p.doc.Org == org && p.doc.Desired == Open {
		return p
	}
	return b.names[orgName{org, hint}]
}

// anyWith is a page of the organisation that names the key. It looks at all pages,
// for those who ask for what is not there only.
func (b *Book) anyWith(org, id string) *page {
	for _, p := range b.pages {
		if _, ok := p.keys[id]; ok && p.doc.Org == org {
			return p
		}
	}
	return nil
}
