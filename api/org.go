package api

// Resource has the fields that every resource of the cloud API has.
type Resource struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// ResourceVersion changes with every write to the resource, its status included. It is the value of the
	// headers ETag and If-Match.
	ResourceVersion int64 `json:"resource_version"`
	// Generation changes only when the spec changes.
	Generation int64 `json:"generation"`
	CreatedAt  Time  `json:"created_at"`
}

// Org is an organisation: a customer with one bill.
type Org struct {
	Resource
	Spec   OrgSpec   `json:"spec"`
	Status OrgStatus `json:"status"`
}

// OrgSpec is the configuration of an organisation. It has no fields yet.
type OrgSpec struct{}

// OrgStatus is the present state of an organisation.
type OrgStatus struct {
	Namespaces int `json:"namespaces"` // without deleted ones
}

// CreateOrgRequest creates an organisation. Only operators of the cloud may send it.
type CreateOrgRequest struct {
	Name string `json:"name"` // [a-z][a-z0-9-]{0,62}, unique
}

// Page is a page of a list. The last page has no Cursor.
type Page[T any] struct {
	Items  []T    `json:"items"`
	Cursor string `json:"cursor,omitempty"`
}

// AuditCheck is the result of verifying a part of the control plane's audit log. Store Verified and Hash
// of a complete check elsewhere: a log that was rewritten as a whole is consistent, but has another hash.
type AuditCheck struct {
	Verified int64  `json:"verified"` // number of the last valid row; all rows before it are valid
	Hash     string `json:"hash"`     // of the last change up to row Verified; hex SHA-256
	// RefusedHash is the hash of the last row of refused requests, which form a chain of their own.
	RefusedHash string `json:"refused_hash"`
	// Old rows of refused requests were removed up to the number Removed; 0 = none.
	Removed int64       `json:"removed"`
	Broken  *AuditBreak `json:"broken,omitempty"` // absent = all rows so far are valid
	Cursor  string      `json:"cursor,omitempty"` // for the next request; absent = the check is complete
}

// AuditBreak is the first invalid row of an audit log.
type AuditBreak struct {
	Seq   int64  `json:"seq"`
	Error string `json:"error"`
}

// AuditRow is one change in the control plane, or a number of equal refused requests. The rows of changes
// form one chain and the rows of refused requests another. Hash covers the row and the hash of the row before
// it in its chain.
type AuditRow struct {
	Seq       int64  `json:"seq"`
	At        Time   `json:"at"`
	Org       string `json:"org,omitempty"`     // id of the organisation; absent for the cloud's own rows and for unknown callers
	Principal string `json:"principal"`         // id of a token, or the part of the cloud that acted; "" = unknown
	Action    string `json:"action"`            // name of the op, such as "create-namespace"; for refused requests, method and route
	Target    string `json:"target"`            // id of the changed resource; "" for refused requests
	Refused   Code   `json:"refused,omitempty"` // error code of refused requests; absent for a change
	Count     int64  `json:"count"`             // number of requests in the row
	Hash      string `json:"hash"`              // hex SHA-256
}
