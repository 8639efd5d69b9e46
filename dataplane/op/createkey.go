package op

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// CreateKey stores an API key and marks the store secured for ever. With first set the op is refused once any
// key has existed, so that nobody can add an administrator by making a node believe that it is new.
//
// A repeated CreateKey, recognised by id and hash, returns the stored key and changes nothing.

// repeats returns true only for the first key. Any other key may have been revoked meanwhile, and a repeat
// would bring it back. The first key cannot come back, because the store is secured for ever.
func (o *CreateKey) repeats() bool { return o.First }

// Validate refuses an op that no state could accept.
func (o *CreateKey) Validate() error {
	var p problems
	o.Meta.check(&p)
	k := o.Key
	if k == nil {
		p.add("key", errors.New("is missing"))
		return p.err()
	}
	p.add("key.id", job.CheckText(k.Id, job.MaxKeyID))
	if k.Id == "" {
		p.add("key.id", errors.New("is missing"))
	}
	p.add("key.name", job.CheckText(k.Name, job.MaxKeyName))
	p.keyRoles("key.roles", k.Roles)
	p.keyScope("key.queue_scope", k.QueueScope)
	p.hash("key.hash", k.Hash)
	p.expiry("key.expires_at", k.ExpiresNs)
	if k.CreatedNs != 0 {
		p.add("key.created_at", errors.New("is not for the caller to say"))
	}
	return p.err()
}

// hash records an error for a value that does not have the size of a SHA-256.
func (p *problems) hash(field string, hash []byte) {
	if len(hash) != sha256.Size {
		p.add(field, fmt.Errorf("has %d bytes; a SHA-256 has %d", len(hash), sha256.Size))
	}
}

// expiry records an error for an expiry before 1970.
func (p *problems) expiry(field string, atNs int64) {
	if atNs < 0 {
		p.add(field, errors.New("lies before 1970"))
	}
}

// checkWord checks a text that must not be empty.
func checkWord(s string, most int) error {
	if s == "" {
		return errors.New("is empty")
	}
	return job.CheckText(s, most)
}

// Apply stores the key. It refuses
//   - with CONFLICT an id that another key has, a first key in a store that has had a key, a key beyond
//     job.MaxKeys, and a request by a key that was changed or revoked after the proposer checked its
//     permissions,
//   - with VALIDATION_ERROR a role that does not exist.
func (o *CreateKey) Apply(tx *state.Tx) (*CreateKeyResult, error) {
	k := o.GetKey()
	if old := tx.Key(k.GetId()); old != nil {
		if bytes.Equal(old.Hash, k.Hash) {
			return &CreateKeyResult{Key: old}, nil
		}
		return nil, api.Errorf(api.Conflict, "there is an API key %q already; choose another id", k.Id)
	}
	head := tx.Head()
	if o.First && head.Secured {
		return nil, api.Errorf(api.Conflict, "this node has had an API key before; use one with the admin role to create more")
	}
	if err := callerAsJudged(tx, o.Meta, o.JudgedVersion); err != nil {
		return nil, err
	}
	if head.KeyRecords >= job.MaxKeys {
		return nil, api.Errorf(api.Conflict, "the namespace has %d API keys, the maximum: revoke one first", job.MaxKeys)
	}
	if err := rolesAreThere(tx, k.GetRoles()); err != nil {
		return nil, err
	}
	stored := &state.Key{
		Id:         k.GetId(),
		Name:       k.GetName(),
		Roles:      k.GetRoles(),
		QueueScope: k.GetQueueScope(),
		Hash:       k.GetHash(),
		Enabled:    k.GetEnabled(),
		ExpiresNs:  k.GetExpiresNs(),
		CreatedNs:  tx.ClockNs(),
	}
	if err := tx.PutKey(stored); err != nil {
		return nil, err
	}
	head.Secured = true
	return &CreateKeyResult{Key: stored}, nil
}
