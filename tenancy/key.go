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

// Key is the stored record of an API key: everything but its secret.
type Key struct {
	ID         string       // public, part of the text of the key
	Name       string       // for people
	Roles      []Role       // built-in and custom roles by name; none = no permission
	Custom     []Permission // the permissions of its custom roles; the authenticator fills them in
	QueueScope []Glob       // the queues it may touch; empty = every queue
	Hash       [32]byte     // SHA-256 of the whole text of the key
	// PreviousHash is the hash of the text before the last rotation. That text is valid until PreviousUntil,
	// exclusive. Zero = no such text.
	PreviousHash  [32]byte
	PreviousUntil time.Time
	Enabled       bool
	ExpiresAt     time.Time // zero = never
	CreatedAt     time.Time
}

// Validate checks the name, the roles and the queue scope, and returns all faults, joined. It refuses every role
// but Roles, so a key with custom roles is not for Validate.
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
			faults = append(faults, fmt.Errorf("roles: %q is not a role: use one of %v", r, roles))
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

// Expired reports whether now is at or after ExpiresAt.
func (k Key) Expired(now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}
