package api

// RoleRequest says what a custom role grants.
type RoleRequest struct {
	Name        string   `json:"name"`        // as keys name it; cannot be changed
	Permissions []string `json:"permissions"` // such as job.read
}

// Role is a set of permissions that keys are given by its name.
type Role struct {
	Name        string   `json:"name"`
	Permissions []string `json:"permissions"`
	BuiltIn     bool     `json:"built_in"`   // it is there always, and stays as it is
	CreatedAt   *Time    `json:"created_at"` // null = built in

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}
