package api

// CreateKeyRequest describes a new API key.
type CreateKeyRequest struct {
	Name       string   `json:"name"`                  // at most 128 bytes
	Roles      []string `json:"roles,omitempty"`       // at most 16; default ["readonly"]
	QueueScope []string `json:"queue_scope,omitempty"` // at most 64 queue names with * globs; empty = every queue
	ExpiresAt  Time     `json:"expires_at,omitempty"`  // in the future; default never
}

// SetKeyRequest replaces the settings of an API key; its id and secret stay. An absent field gets its
// default, but the cloud requires Roles.
type SetKeyRequest struct {
	CreateKeyRequest
	Enabled *bool `json:"enabled,omitempty"` // default true; requests with a disabled key are refused
}

// RotateRequest gives an API key a new secret under the same id.
type RotateRequest struct {
	// After the rotation the present secret stays valid for Overlap: default 1h, at most 168h; 0s ends it at
	// once.
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
	LastUsedAt *Time    `json:"last_used_at"` // null = not since the start of the process that responds
	// PreviousUntil is the time until which the secret before the last rotation stays valid; absent = it is
	// not valid.
	PreviousUntil *Time `json:"previous_until,omitempty"`

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}

// CreatedKey is the response of a create or a rotation. No other response contains the secret.
type CreatedKey struct {
	Key
	APIKey string `json:"api_key"`
}
