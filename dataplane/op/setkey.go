package op

import (
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SetKey replaces the fields of an API key that a person chooses: name, roles, scope, expiry and whether it is
// enabled. Its secret stays. The last key that administers the namespace cannot lose that right.

// Validate refuses an op that no state could accept.
func (o *SetKey) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("id", checkWord(o.Id, job.MaxKeyID))
	p.add("name", job.CheckText(o.Name, job.MaxKeyName))
	p.keyRoles("roles", o.Roles)
	p.keyScope("queue_scope", o.QueueScope)
	p.expiry("expires_at", o.ExpiresNs)
	return p.err()
}

// Apply changes the key. It refuses an unknown id with NOT_FOUND, a version other than the client saw with
// PRECONDITION_FAILED, and new roles that do not exist with VALIDATION_ERROR. It refuses with CONFLICT a key
// that has changed since the request was authorised, a caller whose own key has changed or been revoked
// since, and a change that takes its rights from the last key that administers the namespace.
func (o *SetKey) Apply(tx *state.Tx) (*SetKeyResult, error) {
	was := tx.Key(o.Id)
	if was == nil {
		return nil, api.Errorf(api.NotFound, "there is no API key %q", o.Id)
	}
	if present := KeyVersion(was); o.IfVersion != 0 && o.IfVersion != present {
		return nil, api.Errorf(api.PreconditionFailed, "API key %s has version %d, not %d: read it again", o.Id, present, o.IfVersion)
	}
	if err := asJudged(was, o.JudgedVersion); err != nil {
		return nil, err
	}
	if err := callerAsJudged(tx, o.Meta, o.CallerVersion); err != nil {
		return nil, err
	}
	// A role that the key has already is not checked, because it existed when the key received it.
	added := slices.DeleteFunc(slices.Clone(o.Roles), func(name string) bool { return slices.Contains(was.Roles, name) })
	if err := rolesAreThere(tx, added); err != nil {
		return nil, err
	}
	k := proto.Clone(was).(*state.Key)
	k.Name, k.Roles, k.QueueScope, k.Enabled, k.ExpiresNs = o.Name, o.Roles, o.QueueScope, o.Enabled, o.ExpiresNs
	if !administers(k) {
		if err := othersAdminister(tx, was); err != nil {
			return nil, err
		}
	}
	k.Changes++
	if err := tx.PutKey(k); err != nil {
		return nil, err
	}
	return &SetKeyResult{Key: k}, nil
}

// asJudged refuses with CONFLICT a request that was authorised against an earlier version of a key, because
// the key may since have received rights that the caller does not have; version 0 matches any.
func asJudged(k *state.Key, version uint64) error {
	if version == 0 || version == KeyVersion(k) {
		return nil
	}
	return api.Errorf(api.Conflict, "another client changed API key %s at the same time: nothing was changed, try again", k.Id)
}

// callerAsJudged refuses with CONFLICT a request whose own key has changed or been revoked since the request
// was authorised, because the requested change would outlive the rights of that key; version 0 checks
// nothing.
func callerAsJudged(tx *state.Tx, meta *Meta, version uint64) error {
	if version == 0 {
		return nil
	}
	by := tx.Key(meta.GetPrincipal())
	if by == nil {
		return api.Errorf(api.Conflict, "API key %s was revoked while it asked for this: nothing was done", meta.GetPrincipal())
	}
	return asJudged(by, version)
}

// NoVersion is a version that no key and no queue ever has. A caller whose authorisation found no record
// passes it, so that the op is refused if the record was created since.
const NoVersion = math.MaxUint64

// KeyVersion returns a key's version as clients see it. It rises with every change.
func KeyVersion(k *state.Key) uint64 { return k.GetChanges() + 1 }
