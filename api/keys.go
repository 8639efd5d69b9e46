package api

// CreateKeyRequest describes a new API key.
type CreateKeyRequest struct {
	Name       string   `json:"name"`
	Roles      []string `json:"roles,omitempty"`       // default ["readonly"]
	QueueScope []string `json:"queue_scope,omitempty"` // queue names with * globs; none = every queue
	ExpiresAt  Time     `json:"expires_at,omitempty"`  // default never
}

// SetKeyRequest replaces what is said about an API key, but for its secret.
type SetKeyRequest struct {
	CreateKeyRequest
	Enabled *bool `json:"enabled,omitempty"` // default true; a disabled key opens nothing
}

// RotateRequest gives an API key another secret under its id.
type RotateRequest struct {
	// Overlap is how long the secret it has now opens, too: default 1h, most 168h, 0s = it
	// ends at once.
	Overlap Duration `json:"overlap,omitempty"`
}

// Key is an API key without its secret.
type Key struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Roles      []string `json:"roles"`
	QueueScope []string `json:"queue_scope"`
	Enabled    bool     `json:"enabled"`
	CreatedAt  Time     `json:"created_at"`
	ExpiresAt  *Time    `json:"expires_at"`   // null = never
	LastUsedAt *Time    `json:"last_used_at"` // null = not since this node started
	// PreviousUntil is until when the secret from before the last rotation opens, too.
	PreviousUntil *Time `json:"previous_until,omitempty"`

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}

// CreatedKey is the answer to a create or a rotation: the only one that ever holds
// the secret.
type CreatedKey struct {
	Key
	APIKey string `json:"api_key"`
}
