package tenancy

import "slices"

// Permission is the right to one kind of action. Every route requires one, unless it needs no credential.
type Permission string

// The permissions of the data plane.
const (
	JobEnqueue  Permission = "job.enqueue"  // add jobs and batches
	JobWork     Permission = "job.work"     // fetch, ack, fail, heartbeat
	JobRead     Permission = "job.read"     // jobs and their events, batches, bulk operations, search, usage, workers
	JobManage   Permission = "job.manage"   // retry, cancel, hold, approve, reject, move, delete, replay, score, bulk
	QueueRead   Permission = "queue.read"   // queues, schedules, settings and resources, except roles
	QueueManage Permission = "queue.manage" // change, pause, clear and delete queues, schedules, settings and resources, except roles and webhooks
	KeyManage   Permission = "key.manage"   // API keys, roles; change webhooks
	NodeRead    Permission = "node.read"    // metrics, cluster status, pages of events
	NodeAdmin   Permission = "node.admin"   // membership, backup, restore, profiles, view, audit log
)

// The permissions of the control plane.
const (
	OrgRead         Permission = "org.read"         // the organisation, its tokens without secrets, its audit log
	OrgManage       Permission = "org.manage"       // change the organisation's cloud tokens
	NamespaceRead   Permission = "namespace.read"   // namespaces and operations
	NamespaceManage Permission = "namespace.manage" // create, change and delete namespaces
	UsageRead       Permission = "usage.read"       // usage and its cost, platform prices
	BillingRead     Permission = "billing.read"     // the plan, credits and invoices
	BillingManage   Permission = "billing.manage"   // change the plan
	FleetOperate    Permission = "fleet.operate"    // organisations, hosts, usage set aside, credits, the ledger, the cloud's audit log: for the operators of the cloud
	FleetJoin       Permission = "fleet.join"       // exchange a fleet credential for a service token
	FleetHost       Permission = "fleet.host"       // follow assignments, report, deliver usage
	FleetGateway    Permission = "fleet.gateway"    // follow every namespace's placement and keys, deliver usage
)

// Role is a named set of permissions.
type Role string

// The built-in roles.
const (
	Admin    Role = "admin"    // everything that a tenant may do
	Operator Role = "operator" // enqueue and work; manage jobs and queues; read the node, the organisation, its namespaces and usage
	Worker   Role = "worker"   // enqueue and work; read jobs and queues
	ReadOnly Role = "readonly" // read what operator reads; the default of a new key
)

// Billing is a role of cloud tokens only: read usage and bills, change the plan.
const Billing Role = "billing"

// The roles of the cloud's own people and processes. A tenant's key cannot have one.
const (
	CloudOperator Role = "cloud-operator" // operates organisations, namespaces, keys and hosts; sees no jobs
	HostMember    Role = "host"           // a host
	GatewayMember Role = "gateway"        // a gateway
	Joiner        Role = "joiner"         // has a fleet credential but no service token yet
)

// permissions lists every permission, in the order of the matrix.
var permissions = []Permission{
	JobEnqueue, JobWork, JobRead, JobManage, QueueRead, QueueManage, KeyManage, NodeRead, NodeAdmin,
	OrgRead, OrgManage, NamespaceRead, NamespaceManage, UsageRead, BillingRead, BillingManage, FleetOperate, FleetJoin, FleetHost, FleetGateway,
}

// roles lists the built-in roles of tenants' keys, in the order of the matrix; tokenRoles lists those of cloud tokens
// only, and cloudRoles lists the others.
var (
	roles      = []Role{Admin, Operator, Worker, ReadOnly}
	tokenRoles = []Role{Billing}
	cloudRoles = []Role{CloudOperator, HostMember, GatewayMember, Joiner}
)

// granted maps a role to its permissions. A role has no other permission.
var granted = map[Role][]Permission{
	Admin: {JobEnqueue, JobWork, JobRead, JobManage, QueueRead, QueueManage, KeyManage, NodeRead, NodeAdmin,
		OrgRead, OrgManage, NamespaceRead, NamespaceManage, UsageRead, BillingRead, BillingManage},
	Operator: {JobEnqueue, JobWork, JobRead, JobManage, QueueRead, QueueManage, NodeRead, OrgRead, NamespaceRead, UsageRead},
	Worker:   {JobEnqueue, JobWork, JobRead, QueueRead},
	ReadOnly: {JobRead, QueueRead, NodeRead, OrgRead, NamespaceRead, UsageRead},

	Billing: {OrgRead, NamespaceRead, UsageRead, BillingRead, BillingManage},

	CloudOperator: {KeyManage, OrgRead, OrgManage, NamespaceRead, NamespaceManage, UsageRead, BillingRead, BillingManage, FleetOperate},
	HostMember:    {FleetHost},
	GatewayMember: {FleetGateway},
	Joiner:        {FleetJoin},
}

// Permissions lists every permission.
func Permissions() []Permission { return slices.Clone(permissions) }

// Roles lists the built-in roles of tenants' keys.
func Roles() []Role { return slices.Clone(roles) }

// TokenRoles lists the roles that only cloud tokens have, in addition to Roles.
func TokenRoles() []Role { return slices.Clone(tokenRoles) }

// CloudRoles lists the roles of the cloud's own people and processes.
func CloudRoles() []Role { return slices.Clone(cloudRoles) }

// Valid reports whether p is one of Permissions.
func (p Permission) Valid() bool { return slices.Contains(permissions, p) }

// Valid reports whether r is one of Roles.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// Grants reports whether r has the permission p. It returns false for a custom role, whose permissions are in
// Principal.Custom.
func (r Role) Grants(p Permission) bool { return slices.Contains(granted[r], p) }
