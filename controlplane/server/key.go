package server

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// MaxOverlap bounds how long the old key stays valid after a rotation.
const MaxOverlap = 7 * 24 * time.Hour

// maxKeyLife bounds how far ahead a key's expiry may lie.
const maxKeyLife = 100 * 365 * 24 * time.Hour

// keyOwner describes the keys of one kind of owner: API keys of a namespace or cloud tokens of an
// organisation. Besides these fields, the routes of the two kinds differ only in their paths. locate returns
// the id of the owner in the path, or NOT_FOUND if the caller lacks the permission.
type keyOwner struct {
	kind     keyring.Kind
	kindName string
	roles    []tenancy.Role // built-in roles that a key may have
	// custom lists the custom roles that a key of this owner may have; nil = the owner has none.
	custom func(s *Server, q request, owner string) ([]fleet.Role, error)
	locate func(*Server, request, tenancy.Permission) (string, error)
	read   tenancy.Permission
	manage tenancy.Permission
}

var (
	namespaceKeys = keyOwner{
		kind: keyring.Namespace, kindName: "API key", roles: tenancy.Roles(), read: tenancy.KeyManage, manage: tenancy.KeyManage,
		locate: func(s *Server, q request, what tenancy.Permission) (string, error) {
			ns, err := s.namespace(q, what)
			return string(ns.ID), err
		},
		custom: func(s *Server, q request, owner string) ([]fleet.Role, error) {
			return s.store.Roles(q.Context(), tenancy.NamespaceID(owner))
		},
	}
	cloudTokens = keyOwner{
		kind: keyring.Org, kindName: "cloud token", read: tenancy.OrgRead, manage: tenancy.OrgManage,
		roles: []tenancy.Role{tenancy.Admin, tenancy.Operator, tenancy.ReadOnly, tenancy.Billing},
		locate: func(s *Server, q request, what tenancy.Permission) (string, error) {
			org, err := s.org(q, what)
			return string(org.ID), err
		},
	}
)

func (s *Server) createKey(d keyOwner) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body api.CreateCloudKeyRequest
		q, err := s.begin(r, &body)
		if err != nil {
			return err
		}
		owner, err := d.locate(s, q, d.manage)
		if err != nil {
			return err
		}
		custom, err := d.customOf(s, q, owner)
		if err != nil {
			return err
		}
		var f faults
		key := f.key(&body.CreateKeyRequest, d, custom, s.cfg.Now())
		secret := f.secret(body.ID, body.Hash)
		if err := f.err(); err != nil {
			return err
		}
		if err := mayGrant(q, key, custom); err != nil {
			return err
		}
		caller, err := s.callerVersion(q)
		if err != nil {
			return err
		}
		if err := secret.mint(s, d.kind); err != nil {
			return err
		}
		key.ID, key.Hash = secret.id, secret.hash
		made, err := propose[*store.CreateCredentialResult](r.Context(), s, &store.CreateCredential{
			Meta: q.meta, Credential: toCredential(key, d.kind, owner), CallerVersion: caller,
		})
		if err != nil {
			return err
		}
		return s.writeNewKey(w, d, secret, made.Id)
	}
}

func (s *Server) rotateKey(d keyOwner) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body api.RotateKeyRequest
		q, err := s.begin(r, &body)
		if err != nil {
			return err
		}
		old, err := s.key(q, d, d.manage)
		if err != nil {
			return err
		}
		var f faults
		overlap, err := body.Overlap.Parse(0)
		if err == nil && overlap > MaxOverlap {
			err = fmt.Errorf("it is %v; it must be at most %v", overlap, MaxOverlap)
		}
		if err != nil {
			f.add("overlap", "%v", err)
		}
		secret := f.secret(body.ID, body.Hash)
		if err := f.err(); err != nil {
			return err
		}
		custom, err := d.customOf(s, q, old.Owner)
		if err != nil {
			return err
		}
		if err := mayGrant(q, old.Key, custom); err != nil {
			return err
		}
		caller, err := s.callerVersion(q)
		if err != nil {
			return err
		}
		if err := secret.mint(s, d.kind); err != nil {
			return err
		}
		made, err := propose[*store.RotateCredentialResult](r.Context(), s, &store.RotateCredential{
			Meta: q.meta, OldId: old.ID, NewId: secret.id, NewHash: secret.hash[:], OldExpiresNs: s.store.ClockNs() + overlap.Nanoseconds(),
			JudgedVersion: old.Version, CallerVersion: caller,
		})
		if err != nil {
			return err
		}
		return s.writeNewKey(w, d, secret, made.Id)
	}
}

// writeNewKey writes the response to a create or rotate that produced the credential id.
func (s *Server) writeNewKey(w http.ResponseWriter, d keyOwner, secret secret, id string) error {
	made, ok := s.store.Credential(id)
	switch {
	case secret.text != "" && id != secret.id:
		// The request repeats another under the same Idempotency-Key: the secret minted for this request is
		// not registered, and the secret of the first request was not stored.
		return api.Errorf(api.Conflict, "an earlier request with this Idempotency-Key created %s %s and received its secret, which is not stored: revoke it and create another", d.kindName, id)
	case !ok:
		return api.Errorf(api.NotFound, "%s %s was created and has been revoked since", d.kindName, id)
	}
	return serve.WriteJSON(w, http.StatusCreated, api.CloudKey{Key: s.toKey(made), APIKey: secret.text})
}

func (s *Server) listKeys(d keyOwner) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := s.begin(r, nil)
		if err != nil {
			return err
		}
		owner, err := d.locate(s, q, d.read)
		if err != nil {
			return err
		}
		list := "keys of " + owner
		limit, after, err := pageOf(r, list)
		if err != nil {
			return err
		}
		all, err := s.store.Credentials(r.Context(), owner)
		if err != nil {
			return err
		}
		// An owner has few keys, so the store returns all of them. Keys created at the same moment are
		// ordered by id, so that a cursor names one position.
		position := func(c fleet.Credential) string { return fmt.Sprintf("%020d %s", c.CreatedAt.UnixNano(), c.ID) }
		slices.SortFunc(all, func(a, b fleet.Credential) int { return cmp.Compare(position(a), position(b)) })
		all = slices.DeleteFunc(all, func(c fleet.Credential) bool { return c.Kind != d.kind || position(c) <= after })
		return writePage(w, list, limit, all[:min(len(all), limit+1)], position, s.toKey)
	}
}

func (s *Server) getKey(d keyOwner) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := s.begin(r, nil)
		if err != nil {
			return err
		}
		c, err := s.key(q, d, d.read)
		if err != nil {
			return err
		}
		return writeResource(w, http.StatusOK, c.Version, s.toKey(c))
	}
}

// setKey replaces the settings of a key. The caller needs the rights that the key has and those that it gets.
func (s *Server) setKey(d keyOwner) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body api.SetKeyRequest
		q, err := s.begin(r, &body)
		if err != nil {
			return err
		}
		was, err := s.key(q, d, d.manage)
		if err != nil {
			return err
		}
		custom, err := d.customOf(s, q, was.Owner)
		if err != nil {
			return err
		}
		var f faults
		key := f.key(&body.CreateKeyRequest, d, custom, s.cfg.Now())
		if len(body.Roles) == 0 {
			f.add("roles", "is missing: it takes one or more of %v", d.roles)
		}
		if err := f.err(); err != nil {
			return err
		}
		for _, rights := range []tenancy.Key{was.Key, key} {
			if err := mayGrant(q, rights, custom); err != nil {
				return err
			}
		}
		caller, err := s.callerVersion(q)
		if err != nil {
			return err
		}
		version, err := expected(r, was.Version)
		if err != nil {
			return err
		}
		wanted := toCredential(key, d.kind, "")
		_, err = propose[any](r.Context(), s, &store.SetCredential{
			Meta: q.meta, Id: was.ID, Name: wanted.Name, Roles: wanted.Roles, QueueScope: wanted.QueueScope, ExpiresNs: wanted.ExpiresNs,
			Enabled: body.Enabled == nil || *body.Enabled, IfVersion: version, JudgedVersion: was.Version, CallerVersion: caller,
		})
		if err != nil {
			return err
		}
		now, err := s.key(q, d, d.manage)
		if err != nil {
			return err
		}
		return writeResource(w, http.StatusOK, now.Version, s.toKey(now))
	}
}

// callerVersion returns the version of the caller's token, or 0 for an operator, who has all rights. It
// refuses with CONFLICT if the token was revoked, or its roles or queue scope were changed, after this
// request was authenticated.
func (s *Server) callerVersion(q request) (int64, error) {
	if q.operates() {
		return 0, nil
	}
	c, ok := s.store.Credential(q.who.KeyID)
	if !ok || !slices.Equal(c.Roles, q.who.Roles) || !slices.Equal(c.QueueScope, q.who.QueueScope) {
		return 0, api.Errorf(api.Conflict, "the credential that asks for this was changed or revoked meanwhile: nothing was done")
	}
	return c.Version, nil
}

func (s *Server) revokeKey(d keyOwner) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := s.begin(r, nil)
		if err != nil {
			return err
		}
		c, err := s.key(q, d, d.manage)
		if err != nil {
			return err
		}
		custom, err := d.customOf(s, q, c.Owner)
		if err != nil {
			return err
		}
		if err := mayGrant(q, c.Key, custom); err != nil {
			return err
		}
		caller, err := s.callerVersion(q)
		if err != nil {
			return err
		}
		version, err := expected(r, c.Version)
		if err != nil {
			return err
		}
		_, err = propose[any](r.Context(), s, &store.RevokeCredential{
			Meta: q.meta, Id: c.ID, IfVersion: version, JudgedVersion: c.Version, CallerVersion: caller,
		})
		if err != nil {
			return err
		}
		return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
	}
}

// key returns the credential named in the path, if the owner in the path has it and the caller has the
// permission there; else NOT_FOUND. The credential may be disabled or have expired.
func (s *Server) key(q request, d keyOwner, what tenancy.Permission) (fleet.Credential, error) {
	owner, err := d.locate(s, q, what)
	if err != nil {
		return fleet.Credential{}, err
	}
	id := q.PathValue("id")
	c, ok := s.store.Credential(id)
	if !ok || c.Kind != d.kind || c.Owner != owner {
		return fleet.Credential{}, api.Errorf(api.NotFound, "there is no %s %s", d.kindName, text.Quote(id))
	}
	return c, nil
}

// customOf lists the custom roles that a key of an owner may have.
func (d keyOwner) customOf(s *Server, q request, owner string) ([]fleet.Role, error) {
	if d.custom == nil {
		return nil, nil
	}
	return d.custom(s, q, owner)
}

// key validates a request and returns the key that it describes, without id and secret. A key without roles
// becomes read-only. custom lists the roles that the key may have besides the built-in ones.
func (f *faults) key(r *api.CreateKeyRequest, d keyOwner, custom []fleet.Role, now time.Time) tenancy.Key {
	k := tenancy.Key{Name: r.Name, Enabled: true}
	if len(r.Name) > tenancy.MaxKeyName {
		f.add("name", "has %d bytes: at most %d are allowed", len(r.Name), tenancy.MaxKeyName)
	}
	if len(r.Roles) > tenancy.MaxKeyRoles {
		f.add("roles", "has %d entries: at most %d are allowed", len(r.Roles), tenancy.MaxKeyRoles)
	}
	for i, word := range r.Roles {
		role := tenancy.Role(word)
		there := slices.Contains(d.roles, role) || slices.ContainsFunc(custom, func(c fleet.Role) bool { return c.Name == word })
		switch field := fmt.Sprintf("roles[%d]", i); {
		case there:
		case d.custom != nil && tenancy.CheckRoleName(word) == nil:
			f.add(field, "there is no role %s: create it first, or use one of %v", text.Quote(word), d.roles)
		default:
			f.add(field, "such a key cannot have the role %s: use one of %v", text.Quote(word), d.roles)
		}
		k.Roles = append(k.Roles, role)
	}
	if len(k.Roles) == 0 {
		k.Roles = []tenancy.Role{tenancy.ReadOnly}
	}
	if len(r.QueueScope) > tenancy.MaxQueueScope {
		f.add("queue_scope", "has %d entries: at most %d are allowed", len(r.QueueScope), tenancy.MaxQueueScope)
	}
	for i, given := range r.QueueScope {
		glob, err := tenancy.ParseGlob(given)
		if err != nil {
			f.add(fmt.Sprintf("queue_scope[%d]", i), "%v", err)
		}
		k.QueueScope = append(k.QueueScope, glob)
	}
	switch at, ok, err := r.ExpiresAt.Parse(); {
	case err != nil:
		f.add("expires_at", "%v", err)
	case ok && !at.After(now):
		f.add("expires_at", "%s is over already", r.ExpiresAt)
	case ok && at.After(now.Add(maxKeyLife)):
		f.add("expires_at", "lies more than %d days ahead: leave it out for a key that does not expire", maxKeyLife/(24*time.Hour))
	case ok:
		k.ExpiresAt = at
	}
	return k
}

// secret holds the id and hash of a new credential's secret. text is set only if the server generated the
// secret.
type secret struct {
	id   string
	hash [32]byte
	text string
}

// secret reads the id and hash of a secret that the client generated. If both are empty, secret returns the
// zero value, and the server must mint a secret. One without the other is refused.
func (f *faults) secret(id, hash string) (s secret) {
	if id == "" && hash == "" {
		return secret{}
	}
	plain := func(c rune) bool {
		return !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z')
	}
	if len(id) != keyring.IDLength || strings.ContainsFunc(id, plain) {
		f.add("id", "is the %d letters and digits that stand in the key's text, and goes with hash", keyring.IDLength)
	}
	raw, err := hex.DecodeString(hash)
	if err != nil || len(raw) != len(s.hash) || bytes.Equal(raw, make([]byte, len(s.hash))) {
		f.add("hash", "is the SHA-256 of the key's whole text in hex, and goes with id")
	}
	s.id = id
	copy(s.hash[:], raw)
	return s
}

// mint generates a secret unless the client has generated one.
func (c *secret) mint(s *Server, kind keyring.Kind) (err error) {
	if c.id != "" {
		return nil
	}
	c.text, c.id, c.hash, err = keyring.New(s.cfg.Rand, kind)
	return err
}

// toCredential converts a key to the form that the store's ops carry.
func toCredential(k tenancy.Key, kind keyring.Kind, owner string) *store.Credential {
	c := &store.Credential{Id: k.ID, Kind: string(kind), Owner: owner, Name: k.Name, Hash: k.Hash[:]}
	for _, r := range k.Roles {
		c.Roles = append(c.Roles, string(r))
	}
	for _, g := range k.QueueScope {
		c.QueueScope = append(c.QueueScope, string(g))
	}
	if !k.ExpiresAt.IsZero() {
		c.ExpiresNs = k.ExpiresAt.UnixNano()
	}
	return c
}

// ReadCredential parses the text of a credential that a person stored in a file beforehand. It refuses a text
// that is not a credential of the given kind. The result has no owner.
func ReadCredential(text string, kind keyring.Kind, name string) (*store.Credential, error) {
	found, id, ok := keyring.Parse(text)
	if !ok || found != kind {
		return nil, errors.New("this is not a credential of kind " + string(kind) + ": it begins with cv_" + string(kind) + "_ and must be copied whole")
	}
	key := tenancy.Key{ID: id, Name: name, Hash: keyring.Hash(text)}
	if kind == keyring.CloudOperator {
		key.Roles = []tenancy.Role{tenancy.CloudOperator}
	}
	return toCredential(key, kind, ""), nil
}
