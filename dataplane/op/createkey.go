package op

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// CreateKey stores an API key and marks the store secured for ever. With first
// set it is refused once any key has existed, so that nobody can add an
// administrator by making a node believe it is new. A repeated CreateKey, known
// by id and hash, answers as the first did and changes nothing. Only the first key
// is repeated unasked: another one may have been revoked meanwhile, and nobody but
// its creator knows whether it should be there.

// repeats says whether a repeat cannot bring back a key that was revoked since.
func (o *CreateKey) repeats() bool { return o.First }

// Number is CreateKey's number in the log.
func (*CreateKey) Number() entry.Number { return numCreateKey }

// Class is CreateKey's place among waiting proposals.
func (*CreateKey) Class() pipeline.Class { return table[numCreateKey].Class }

// Validate refuses what no state could accept.
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
	p.length("key.roles", len(k.Roles), job.MaxKeyRoles)
	if len(k.Roles) <= job.MaxKeyRoles {
		for i, role := range k.Roles {
			p.item("key.roles", i, "", checkWord(role, job.MaxKeyRole))
		}
	}
	if len(k.QueueScope) > job.MaxKeyScope {
		p.length("key.queue_scope", len(k.QueueScope), job.MaxKeyScope)
	} else {
		for i, glob := range k.QueueScope {
			p.item("key.queue_scope", i, "", checkWord(glob, job.MaxKeyGlob))
		}
	}
	if len(k.Hash) != sha256.Size {
		p.add("key.hash", fmt.Errorf("has %d bytes; a SHA-256 has %d", len(k.Hash), sha256.Size))
	}
	if k.ExpiresNs < 0 {
		p.add("key.expires_at", errors.New("lies before 1970"))
	}
	if k.CreatedNs != 0 {
		p.add("key.created_at", errors.New("is not for the caller to say"))
	}
	return p.err()
}

// checkWord checks a text that must not be empty.
func checkWord(s string, most int) error {
	if s == "" {
		return errors.New("is empty")
	}
	return job.CheckText(s, most)
}

// Apply stores the key. It refuses a first key that is none, an id that another
// key has, and a key too many.
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
	if head.KeyRecords >= job.MaxKeys {
		return nil, api.Errorf(api.Conflict, "there are as many API keys as there may be (%d); revoke one first", job.MaxKeys)
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
