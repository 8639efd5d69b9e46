package tenancy

import "slices"

// Permission is a right to do one kind of thing. Every route asks for one.
type Permission string

// The permissions of the data plane.
const (
	JobEnqueue  Permission = "job.enqueue"  // add jobs and batches
	JobWork     Permission = "job.work"     // fetch, ack, fail, heartbeat
	JobRead     Permission = "job.read"     // jobs, search, events, usage
	JobManage   Permission = "job.manage"   // retry, cancel, hold, approve, move, delete, bulk
	QueueRead   Permission = "queue.read"   // queues, schedules, budgets and their settings
	QueueManage Permission = "queue.manage" // change, pause, clear, delete them
	KeyManage   Permission = "key.manage"   // API keys and roles, secrets of webhooks
	NodeRead    Permission = "node.read"    // metrics, info, cluster status
	NodeAdmin   Permission = "node.admin"   // membership, backup, restore, profiles
)

// Role is a named set of permissions.
type Role string

// The built-in roles.
const (
	Admin    Role = "admin"    // everything
	Operator Role = "operator" // jobs and queues, not keys or the node
	Worker   Role = "worker"   // enqueue and work
	ReadOnly Role = "readonly" // look, the default of a new key
)

// permissions lists every permission, in the order of the matrix.
var permissions = []Permission{
	JobEnqueue, JobWork, JobRead, JobManage, QueueRead, QueueManage, KeyManage, NodeRead, NodeAdmin,
}

// roles lists every built-in role, in the order of the matrix.
var roles = []Role{Admin, Operator, Worker, ReadOnly}

// granted is the matrix role x permission. A pair that is not here is refused.
var granted = map[Role][]Permission{
	Admin:    permissions,
	Operator: {JobEnqueue, JobWork, JobRead, JobManage, QueueRead, QueueManage, NodeRead},
	Worker:   {JobEnqueue, JobWork, JobRead, QueueRead},
	ReadOnly: {JobRead, QueueRead, NodeRead},
}

// Permissions lists every permission.
func Permissions() []Permission { return slices.Clone(permissions) }

// Roles lists every built-in role.
func Roles() []Role { return slices.Clone(roles) }

// Valid says whether p is one of Permissions.
func (p Permission) Valid() bool { return slices.Contains(permissions, p) }

// Valid says whether r is one of Roles.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// Grants says whether r includes p. A role or permission that is not built in
// grants nothing.
func (r Role) Grants(p Permission) bool { return slices.Contains(granted[r], p) }
