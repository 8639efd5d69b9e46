package tenancy

import (
	"errors"
	"fmt"
	"time"
)

// The limits of a key.
const (
	MaxKeyName    = 128 // bytes
	MaxKeyRoles   = 16
	MaxQueueScope = 64 // globs
)

// Key is an API key as it is kept: everything but its secret.
type Key struct {
	ID         string       // public, part of the key's text
	Name       string       // for people
	Roles      []Role       // what it may do; none = nothing
	Custom     []Permission // what those of its roles grant that are not built in
	QueueScope []Glob       // the queues it may touch; none = every queue
	Hash       [32]byte     // SHA-256 of the key's whole text
	// PreviousHash is that of the text before the last rotation, which opens until
	// PreviousUntil as well; zero = there is none.
	PreviousHash  [32]byte
	PreviousUntil time.Time
	Enabled       bool
	ExpiresAt     time.Time // zero = never
	CreatedAt     time.Time
}

// Validate checks what a person chooses about a key: name, roles and queue
// scope. It returns every fault, joined.
func (k Key) Validate() error {
	var faults []error
	if len(k.Name) > MaxKeyName {
		faults = append(faults, fmt.Errorf("name has %d bytes: at most %d", len(k.Name), MaxKeyName))
	}
	if len(k.Roles) == 0 || len(k.Roles) > MaxKeyRoles {
		faults = append(faults, fmt.Errorf("roles has %d entries: it takes 1 to %d", len(k.Roles), MaxKeyRoles))
	}
	for _, r := range k.Roles {
		if !r.Valid() {
			faults = append(faults, fmt.Errorf("roles: %q is no role: use one of %v", r, roles))
		}
	}
	if len(k.QueueScope) > MaxQueueScope {
		faults = append(faults, fmt.Errorf("queue_scope has %d entries: at most %d", len(k.QueueScope), MaxQueueScope))
	}
	for _, g := range k.QueueScope {
		if _, err := ParseGlob(string(g)); err != nil {
			faults = append(faults, fmt.Errorf("queue_scope: %w", err))
		}
	}
	return errors.Join(faults...)
}

// Expired says whether the key's time is over at now. It is over from
// ExpiresAt on.
func (k Key) Expired(now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}
