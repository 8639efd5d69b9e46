package api

// RoleRequest declares the permissions of a custom role.
type RoleRequest struct {
	Name        string   `json:"name"`        // the name in keys; cannot be changed
	Permissions []string `json:"permissions"` // such as job.read
}

// Role is a named set of permissions.
type Role struct {
	Name        string   `json:"name"`
	Permissions []string `json:"permissions"`
	BuiltIn     bool     `json:"built_in"`   // always exists and cannot be changed
	CreatedAt   *Time    `json:"created_at"` // null if built in

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}
