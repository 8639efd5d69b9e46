package server

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// ownKeys refuses requests about keys on a host of the cloud, because the control plane keeps the keys.
func (s *Server) ownKeys(r *http.Request) error { return s.own(r, "keys") }

// own refuses requests about a noun (keys or roles) on a host of the cloud.
func (s *Server) own(r *http.Request, noun string) error {
	if !s.cloud() {
		return nil
	}
	return api.Errorf(api.Unsupported, "%s of a namespace in the cloud are kept by the control plane: use /cloud/v1/namespaces/%s/%s there, or corvo cloud %s",
		noun, serve.Principal(r.Context()).Namespace, noun, noun)
}

func (s *Server) createKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.ownKeys(r); err != nil {
		return err
	}
	var body api.CreateKeyRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	key := convert.FromCreateKey(&f, &body, s.cfg.Now())
	q.haveRoles(&f, key)
	if err := f.Err(); err != nil {
		return err
	}
	if err := q.mayGrant(key); err != nil {
		return err
	}
	if err := q.mayBeFirst(key); err != nil {
		return err
	}
	text, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		return err
	}
	key.ID, key.Hash = id, hash
	result, err := commit[*op.CreateKeyResult](s, w, r, &q, q.shards.Home(), &op.CreateKey{Meta: q.meta, Key: convert.ToKeyRecord(key), JudgedVersion: q.callerVersion})
	if err != nil {
		return err
	}
	return s.writeSecret(w, http.StatusCreated, result.Key, text)
}

// writeSecret answers with a key that has a new secret. It refuses a repeat with CONFLICT, because the secret
// of the first request was not kept.
func (s *Server) writeSecret(w http.ResponseWriter, status int, rec *state.Key, text string) error {
	if hash := keyring.Hash(text); !bytes.Equal(rec.GetHash(), hash[:]) {
		// A repeat under an Idempotency-Key: the secret made for this request is not the key's, and the key's
		// secret was not kept.
		return api.Errorf(api.Conflict, "an earlier request with this Idempotency-Key answered with the secret of key %s, which is not stored: rotate the key for a new secret", rec.GetId())
	}
	return writeVersion(w, status, op.KeyVersion(rec), api.CreatedKey{Key: convert.ToKey(rec, s.lastUsedNs(rec.Id), s.cfg.Now().UnixNano()), APIKey: text})
}

// mayGrant refuses to create, change, rotate or revoke a key with rights that the caller lacks.
func (q *request) mayGrant(key tenancy.Key) error {
	where := tenancy.Where{Namespace: q.who.Namespace}
	if err := tenancy.MayGrant(q.who, where, key.Roles, key.QueueScope); err != nil {
		return err
	}
	return tenancy.MayGive(q.who, where, customOf(key.Roles, q.shards.Home().State().ResourceIndex()))
}

// haveRoles reports roles that do not exist as faults. The op refuses them too, but mayGrant runs before the
// op and would judge such a role as one without permissions.
func (q *request) haveRoles(f *convert.Faults, key tenancy.Key) {
	resources := q.shards.Home().State().ResourceIndex()
	for i, role := range key.Roles {
		if !role.Valid() && tenancy.CheckRoleName(string(role)) == nil && resources.Resource(roles.kind, string(role)) == nil {
			f.Invalid(fmt.Sprintf("roles[%d]", i), "there is no role %s: create it first, or use one of %v", role, tenancy.Roles())
		}
	}
}

// mayBeFirst refuses the first key of an open node unless it has the role admin for every queue and never
// expires. An open node closes with its first key, so that key must be able to create others.
func (q *request) mayBeFirst(key tenancy.Key) error {
	first := q.who.Open && !q.shards.Home().State().Head().GetSecured()
	if !first || slices.Contains(key.Roles, tenancy.Admin) && len(key.QueueScope) == 0 && key.ExpiresAt.IsZero() {
		return nil
	}
	return api.Errorf(api.Conflict, "the first key closes this node to requests without a key: give it the role admin, every queue and no expiry, so that it can create other keys")
}

func (s *Server) setKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.ownKeys(r); err != nil {
		return err
	}
	var body api.SetKeyRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	result, err := changeKey[*op.SetKeyResult](s, w, r, &q, func(was *state.Key) (op.Op, error) {
		var f convert.Faults
		key := convert.FromSetKey(&f, &body, s.cfg.Now())
		q.haveRoles(&f, key)
		if err := f.Err(); err != nil {
			return nil, err
		}
		if err := q.mayGrant(key); err != nil {
			return nil, err
		}
		seen, err := ifMatch(r, op.KeyVersion(was))
		return setting(&q, was, convert.ToKeyRecord(key), seen), err
	})
	if err != nil {
		return err
	}
	return s.writeKey(w, result.Key)
}

func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.ownKeys(r); err != nil {
		return err
	}
	var body api.RotateRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var text string
	result, err := changeKey[*op.RotateKeyResult](s, w, r, &q, func(was *state.Key) (op.Op, error) {
		var f convert.Faults
		overlap := convert.FromRotate(&f, &body)
		if err := f.Err(); err != nil {
			return nil, err
		}
		secret, hash, err := keyring.NewSecret(rand.Reader, keyring.Namespace, was.Id)
		text = secret
		return rotating(&q, was, hash[:], overlap), err
	})
	if err != nil {
		return err
	}
	// The roles may grant more now than when they were checked, and a repeat gets the answer of the first
	// request. A caller who lacks one of the key's rights must not see the key's secret.
	if err := q.mayGrant(convert.FromKeyRecord(result.Key)); err != nil {
		return err
	}
	return s.writeSecret(w, http.StatusOK, result.Key, text)
}

// changeKey changes the key in the path if the caller has all of that key's rights at the moment of the
// change. The op carries the version of the key that was checked. If another request changed the key in
// between, changeKey checks and tries once more.
func changeKey[R any](s *Server, w http.ResponseWriter, r *http.Request, q *request, change func(was *state.Key) (op.Op, error)) (result R, err error) {
	for judged := uint64(0); ; {
		was, wrong := s.ownKey(r, q)
		switch {
		case wrong != nil:
			return result, wrong
		case judged == op.KeyVersion(was): // the key did not change, so the refusal has another reason
			return result, err
		}
		o, wrong := change(was)
		if wrong != nil {
			return result, wrong
		}
		if result, err = commit[R](s, w, r, q, q.shards.Home(), o); judged != 0 || api.CodeOf(err) != api.Conflict {
			return result, err
		}
		judged = op.KeyVersion(was)
	}
}

// ownKey returns the key in the path as it is now, if the caller has all of that key's rights.
func (s *Server) ownKey(r *http.Request, q *request) (*state.Key, error) {
	if err := s.awaitPresent(r, q, q.shards.Home()); err != nil {
		return nil, err
	}
	rec, err := q.key(r)
	if err != nil {
		return nil, err
	}
	return rec, q.mayGrant(convert.FromKeyRecord(rec))
}

func (s *Server) writeKey(w http.ResponseWriter, rec *state.Key) error {
	return writeVersion(w, http.StatusOK, op.KeyVersion(rec), convert.ToKey(rec, s.lastUsedNs(rec.Id), s.cfg.Now().UnixNano()))
}

func (s *Server) listKeys(w http.ResponseWriter, r *http.Request) error {
	if err := s.ownKeys(r); err != nil {
		return err
	}
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	if err := s.awaitState(r, &q, q.shards.Home()); err != nil {
		return err
	}
	keys := []api.Key{}
	for _, rec := range q.shards.Home().State().Keys() {
		keys = append(keys, convert.ToKey(rec, s.lastUsedNs(rec.Id), s.cfg.Now().UnixNano()))
	}
	return serve.WriteJSON(w, http.StatusOK, keys)
}

func (s *Server) getKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.ownKeys(r); err != nil {
		return err
	}
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	if err := s.awaitState(r, &q, q.shards.Home()); err != nil {
		return err
	}
	rec, err := q.key(r)
	if err != nil {
		return err
	}
	return s.writeKey(w, rec)
}

func (s *Server) revokeKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.ownKeys(r); err != nil {
		return err
	}
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	_, err = changeKey[*op.RevokeKeyResult](s, w, r, &q, func(was *state.Key) (op.Op, error) {
		present := op.KeyVersion(was)
		seen, err := ifMatch(r, present)
		if err == nil && seen != 0 && seen != present { // the op checks that this is still so
			err = api.Errorf(api.PreconditionFailed, "API key %s has version %d, not %d: read it again", was.Id, present, seen)
		}
		return revoking(&q, was), err
	})
	if api.CodeOf(err) == api.NotFound {
		// An earlier try of this request may have revoked the key: if the request has an Idempotency-Key, its
		// result is remembered. If no result is remembered, the op refuses, and its audit record has the id.
		_, err = commit[*op.RevokeKeyResult](s, w, r, &q, q.shards.Home(), &op.RevokeKey{Meta: q.meta, Id: id, SpareLast: true, JudgedVersion: op.NoVersion})
	}
	if err != nil {
		return err
	}
	s.keyUses.byID.Delete(id)
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}

// setting builds the op that replaces a key's settings by the settings in rec. seen is the version in
// If-Match; 0 means any. Like rotating and revoking, setting puts the versions of the key and of the caller's
// key that were checked into the op.
func setting(q *request, was, rec *state.Key, seen uint64) op.Op {
	return &op.SetKey{
		Meta: q.meta, Id: was.Id, Name: rec.Name, Roles: rec.Roles, QueueScope: rec.QueueScope, Enabled: rec.Enabled, ExpiresNs: rec.ExpiresNs,
		IfVersion: seen, JudgedVersion: op.KeyVersion(was), CallerVersion: q.callerVersion,
	}
}

// rotating builds the op that gives a key another secret.
func rotating(q *request, was *state.Key, hash []byte, overlap time.Duration) op.Op {
	return &op.RotateKey{Meta: q.meta, Id: was.Id, Hash: hash, OverlapNs: overlap.Nanoseconds(), JudgedVersion: op.KeyVersion(was), CallerVersion: q.callerVersion}
}

// revoking builds the op that revokes a key.
func revoking(q *request, was *state.Key) op.Op {
	return &op.RevokeKey{Meta: q.meta, Id: was.Id, SpareLast: true, JudgedVersion: op.KeyVersion(was), CallerVersion: q.callerVersion}
}

// key returns the key in the path.
func (q *request) key(r *http.Request) (*state.Key, error) {
	id := r.PathValue("id")
	if rec := q.shards.Home().State().Key(id); rec != nil {
		return rec, nil
	}
	return nil, api.Errorf(api.NotFound, "there is no API key %s", text.Quote(id))
}
