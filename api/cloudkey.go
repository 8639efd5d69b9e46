package api

// CreateCloudKeyRequest creates a namespace's API key or an organisation's cloud token. A client may generate
// the secret itself and send ID and Hash, so that the secret never leaves its machine. The response then has
// no secret.
type CreateCloudKeyRequest struct {
	CreateKeyRequest
	ID   string `json:"id,omitempty"`   // the id in the text of the key; requires hash
	Hash string `json:"hash,omitempty"` // hex SHA-256 of the whole text of the key; requires id
}

// RotateKeyRequest replaces a key by a new one with the same name, roles, scope and lifetime. The old key
// stays valid for Overlap after the rotation, but not beyond its own expiry.
type RotateKeyRequest struct {
	Overlap Duration `json:"overlap,omitempty"` // default 0s, at most 168h
	ID      string   `json:"id,omitempty"`      // as in CreateCloudKeyRequest
	Hash    string   `json:"hash,omitempty"`
}

// CloudKey is the response to the creation or rotation of a key. APIKey is present if the control plane
// generated the secret, and no later response contains it.
type CloudKey struct {
	Key
	APIKey string `json:"api_key,omitempty"`
}

// CreateOperatorRequest creates a key for another operator of the cloud. The response is a CloudKey.
type CreateOperatorRequest struct {
	Name string `json:"name"` // of the person; 1 to 128 bytes
}
