package tenancy

// NamespaceID names a namespace, the unit of isolation. It is a type of its own
// so that no string from a request can be taken for one: only what
// authenticates a request makes it.
type NamespaceID string

// Default is the one namespace of a bare node.
const Default NamespaceID = "default"

// OrgID names an organisation, the customer with one bill. Like a namespace's it
// is made only by what authenticates a request.
type OrgID string

// EveryOrg is the organisation of those who run the cloud and of its own
// processes: what they may touch, their roles alone say.
const EveryOrg OrgID = "*"
