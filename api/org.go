package api

// Resource is what every resource of the cloud API carries.
type Resource struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// ResourceVersion changes with every write to the resource, its status
	// included; it is what ETag and If-Match carry.
	ResourceVersion int64 `json:"resource_version"`
	// Generation changes with the spec only.
	Generation int64 `json:"generation"`
	CreatedAt  Time  `json:"created_at"`
}

// Org is an organisation, the customer with one bill.
type Org struct {
	Resource
	Spec   OrgSpec   `json:"spec"`
	Status OrgStatus `json:"status"`
}

// OrgSpec is what can be chosen of an organisation; nothing yet.
type OrgSpec struct{}

// OrgStatus is where an organisation stands.
type OrgStatus struct {
	Namespaces int `json:"namespaces"` // those that are not deleted
}

// CreateOrgRequest makes an organisation; those who run the cloud may.
type CreateOrgRequest struct {
	Name string `json:"name"` // [a-z][a-z0-9-]{0,62}, unique
}

// Page is a page of a list. Cursor is absent on the last one.
type Page[T any] struct {
	Items  []T    `json:"items"`
	Cursor string `json:"cursor,omitempty"`
}

// AuditCheck is the outcome of recomputing a part of the control plane's audit log. Keep
// Verified and Hash of a whole check elsewhere: a log that was written anew fits itself
// and does not come to the same hash.
type AuditCheck struct {
	Verified int64  `json:"verified"` // number of the last row that fits, as all before it do
	Hash     string `json:"hash"`     // of the last row of a change up to there; hex SHA-256
	// RefusedHash is that of the last row of refused requests. They are a chain of their own.
	RefusedHash string `json:"refused_hash"`
	// Removed is the number up to which refused requests were removed when their time was
	// over; 0 = none was.
	Removed int64       `json:"removed"`
	Broken  *AuditBreak `json:"broken,omitempty"` // absent = every row so far fits
	Cursor  string      `json:"cursor,omitempty"` // to go on; absent = the check is complete
}

// AuditBreak is the first row of an audit log that does not fit.
type AuditBreak struct {
	Seq   int64  `json:"seq"`
	Error string `json:"error"`
}

// AuditRow is one change of the control plane, or refused requests that are alike.
// Rows are chained: Hash covers the row and the hash before it.
type AuditRow struct {
	Seq       int64  `json:"seq"`
	At        Time   `json:"at"`
	Org       string `json:"org,omitempty"`     // id of the organisation; absent = the cloud's own, and callers that nobody knows
	Principal string `json:"principal"`         // a token's id, or the part of the cloud that acted; "" = nobody knows the caller
	Action    string `json:"action"`            // the op's name, such as "create-namespace"; of refused requests method and route
	Target    string `json:"target"`            // the id of what was changed; "" for refused requests
	Refused   Code   `json:"refused,omitempty"` // error code of refused requests; absent = the change was made
	Count     int64  `json:"count"`             // requests that the row stands for
	Hash      string `json:"hash"`              // hex SHA-256
}
