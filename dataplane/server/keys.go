package server

import (
	"bytes"
	"crypto/rand"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// ownKeys refuses where the namespace's keys are not its own affair.
func (s *Server) ownKeys(r *http.Request) error {
	if !s.cloud() {
		return nil
	}
	return api.Errorf(api.Unsupported, "keys of a namespace in the cloud are kept by the control plane: use /cloud/v1/namespaces/%s/keys there", serve.Principal(r.Context()).Namespace)
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
	if err := f.Err(); err != nil {
		return err
	}
	if err := tenancy.MayGrant(q.who, tenancy.Where{Namespace: q.who.Namespace}, key.Roles, key.QueueScope); err != nil {
		return err
	}
	text, id, hash, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		return err
	}
	key.ID, key.Hash = id, hash
	result, err := commit[*op.CreateKeyResult](s, w, r, &q, q.shards.Home(), &op.CreateKey{Meta: q.meta, Key: convert.ToKeyRecord(key)})
	if err != nil {
		return err
	}
	if !bytes.Equal(result.Key.GetHash(), hash[:]) {
		// A repeat under an Idempotency-Key: the secret minted just now opens
		// nothing, and the one that does was not kept.
		return api.Errorf(api.Conflict, "an earlier request with this Idempotency-Key created key %s and was shown its secret, which is not kept: revoke it and create another", result.Key.GetId())
	}
	return serve.WriteJSON(w, http.StatusCreated, api.CreatedKey{Key: convert.ToKey(result.Key, 0), APIKey: text})
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
		keys = append(keys, convert.ToKey(rec, s.lastUsedNs(rec.Id)))
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
	return serve.WriteJSON(w, http.StatusOK, convert.ToKey(rec, s.lastUsedNs(rec.Id)))
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
	if rec := q.shards.Home().State().Key(id); rec != nil {
		key := convert.FromKeyRecord(rec)
		if err := tenancy.MayGrant(q.who, tenancy.Where{Namespace: q.who.Namespace}, key.Roles, key.QueueScope); err != nil {
			return err
		}
	}
	if _, err := commit[*op.RevokeKeyResult](s, w, r, &q, q.shards.Home(), &op.RevokeKey{Meta: q.meta, Id: id}); err != nil {
		return err
	}
	s.lastUsed.Delete(id)
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}

// key is the key named in the path.
func (q *request) key(r *http.Request) (*state.Key, error) {
	id := r.PathValue("id")
	if rec := q.shards.Home().State().Key(id); rec != nil {
		return rec, nil
	}
	return nil, api.Errorf(api.NotFound, "there is no API key %s", convert.Excerpt(id))
}
