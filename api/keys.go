package api

// CreateKeyRequest describes a new API key.
type CreateKeyRequest struct {
	Name       string   `json:"name"`
	Roles      []string `json:"roles,omitempty"`       // default ["readonly"]
	QueueScope []string `json:"queue_scope,omitempty"` // queue names with * globs; none = every queue
	ExpiresAt  Time     `json:"expires_at,omitempty"`  // default never
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
}

// CreatedKey is the answer to a create: the only one that ever holds the
// secret.
type CreatedKey struct {
	Key
	APIKey string `json:"api_key"`
}
