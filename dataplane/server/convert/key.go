package convert

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// FromKeyRecord converts a stored key to tenancy's type. Only FromKeyRecord and ToKeyRecord convert between
// the two.
func FromKeyRecord(rec *state.Key) tenancy.Key {
	k := tenancy.Key{
		ID:        rec.Id,
		Name:      rec.Name,
		Enabled:   rec.Enabled,
		CreatedAt: time.Unix(0, rec.CreatedNs).UTC(),
	}
	copy(k.Hash[:], rec.Hash)
	if rec.PreviousUntilNs != 0 {
		copy(k.PreviousHash[:], rec.PreviousHash)
		k.PreviousUntil = time.Unix(0, rec.PreviousUntilNs).UTC()
	}
	if rec.ExpiresNs != 0 {
		k.ExpiresAt = time.Unix(0, rec.ExpiresNs).UTC()
	}
	for _, r := range rec.Roles {
		k.Roles = append(k.Roles, tenancy.Role(r))
	}
	for _, g := range rec.QueueScope {
		k.QueueScope = append(k.QueueScope, tenancy.Glob(g))
	}
	return k
}

// ToKeyRecord converts a new key, or the new settings of a key, to the stored form. It leaves out the
// replaced secret of a rotation, which only the op of a rotation sets. Apply sets the creation time.
func ToKeyRecord(k tenancy.Key) *state.Key {
	rec := &state.Key{Id: k.ID, Name: k.Name, Hash: k.Hash[:], Enabled: k.Enabled}
	if !k.ExpiresAt.IsZero() {
		rec.ExpiresNs = k.ExpiresAt.UnixNano()
	}
	for _, r := range k.Roles {
		rec.Roles = append(rec.Roles, string(r))
	}
	for _, g := range k.QueueScope {
		rec.QueueScope = append(rec.QueueScope, string(g))
	}
	return rec
}

// FromCreateKey converts the settings of a new key. A key without roles gets ReadOnly. The caller adds the id
// and the secret, and checks that custom roles exist.
func FromCreateKey(f *Faults, r *api.CreateKeyRequest, now time.Time) tenancy.Key {
	k := tenancy.Key{Name: r.Name, Enabled: true}
	if len(r.Name) > tenancy.MaxKeyName {
		f.Invalid("name", "has %d bytes; at most %d are allowed", len(r.Name), tenancy.MaxKeyName)
	}
	if len(r.Roles) > tenancy.MaxKeyRoles {
		f.Invalid("roles", "has %d entries; at most %d are allowed", len(r.Roles), tenancy.MaxKeyRoles)
	}
	for i, word := range r.Roles {
		role := tenancy.Role(word)
		if !role.Valid() {
			if err := tenancy.CheckRoleName(word); err != nil {
				f.Invalid(fmt.Sprintf("roles[%d]", i), "%v", err)
			}
		}
		k.Roles = append(k.Roles, role)
	}
	if len(k.Roles) == 0 {
		k.Roles = []tenancy.Role{tenancy.ReadOnly}
	}
	if len(r.QueueScope) > tenancy.MaxQueueScope {
		f.Invalid("queue_scope", "has %d entries; at most %d are allowed", len(r.QueueScope), tenancy.MaxQueueScope)
	}
	for i, text := range r.QueueScope {
		glob, err := tenancy.ParseGlob(text)
		if err != nil {
			f.Invalid(fmt.Sprintf("queue_scope[%d]", i), "%v", err)
		}
		k.QueueScope = append(k.QueueScope, glob)
	}
	switch at, ok, err := r.ExpiresAt.Parse(); {
	case err != nil:
		f.Invalid("expires_at", "%v", err)
	case ok && !at.After(now):
		f.Invalid("expires_at", "%s is over already", r.ExpiresAt)
	case ok && at.After(now.Add(maxKeyLife)):
		f.Invalid("expires_at", "lies more than %d days ahead; leave it out for a key that does not expire", maxKeyLife/(24*time.Hour))
	case ok:
		k.ExpiresAt = at
	}
	return k
}

// FromSetKey converts the new settings of a key as FromCreateKey does. An absent enabled means true. The
// caller adds the key's id.
func FromSetKey(f *Faults, r *api.SetKeyRequest, now time.Time) tenancy.Key {
	k := FromCreateKey(f, &r.CreateKeyRequest, now)
	k.Enabled = r.Enabled == nil || *r.Enabled
	return k
}

// DefaultKeyOverlap is the time that a rotated key's old secret stays valid if the request sets none.
const DefaultKeyOverlap = time.Hour

// FromRotate returns the time that the old secret stays valid. It refuses more than job.MaxKeyOverlap.
func FromRotate(f *Faults, r *api.RotateRequest) time.Duration {
	overlap, err := r.Overlap.Parse(DefaultKeyOverlap)
	switch {
	case err != nil:
		f.Invalid("overlap", "%v", err)
	case overlap > job.MaxKeyOverlap:
		f.Invalid("overlap", "is %v; at most %v are allowed", overlap, job.MaxKeyOverlap)
	}
	return overlap
}

// maxKeyLife is the longest time to a key's expiry.
const maxKeyLife = 100 * 365 * 24 * time.Hour

// ToKey converts a key to its API form. It shows the end of a rotation's overlap if that is after nowNs, and
// the last use unless lastUsedNs is 0.
func ToKey(rec *state.Key, lastUsedNs, nowNs int64) api.Key {
	k := api.Key{
		ID:         rec.Id,
		Name:       rec.Name,
		Roles:      append([]string{}, rec.Roles...),
		QueueScope: append([]string{}, rec.QueueScope...),
		Enabled:    rec.Enabled,
		CreatedAt:  timeOf(rec.CreatedNs),
	}
	if rec.PreviousUntilNs > nowNs {
		at := timeOf(rec.PreviousUntilNs)
		k.PreviousUntil = &at
	}
	if rec.ExpiresNs != 0 {
		at := timeOf(rec.ExpiresNs)
		k.ExpiresAt = &at
	}
	if lastUsedNs != 0 {
		at := timeOf(lastUsedNs)
		k.LastUsedAt = &at
	}
	return k
}
