package tenancy

import "time"

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

// Expired reports whether now is at or after ExpiresAt.
func (k Key) Expired(now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}
