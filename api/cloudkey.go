package api

// CreateCloudKeyRequest makes a namespace's API key or an organisation's cloud
// token. Who made the secret elsewhere sends only its ID and Hash, and gets an
// answer without a secret: so the secret never leaves the machine it was made on.
type CreateCloudKeyRequest struct {
	CreateKeyRequest
	ID   string `json:"id,omitempty"`   // the id that stands in the key's text
	Hash string `json:"hash,omitempty"` // hex SHA-256 of the key's whole text
}

// RotateKeyRequest replaces a key by a new one with the same name, roles and
// scope. The old one works on for Overlap.
type RotateKeyRequest struct {
	Overlap Duration `json:"overlap,omitempty"` // default 0s, most 168h
	ID      string   `json:"id,omitempty"`      // as in CreateCloudKeyRequest
	Hash    string   `json:"hash,omitempty"`
}

// CloudKey is the answer to a create or rotate. APIKey is there when the control
// plane made the secret: then and never again.
type CloudKey struct {
	Key
	APIKey string `json:"api_key,omitempty"`
}
