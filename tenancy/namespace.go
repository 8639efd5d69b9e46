package tenancy

// NamespaceID is the id of a namespace, the unit of isolation. It is a separate type so that no string
// from a request can be mistaken for one: only an authenticator makes it.
type NamespaceID string

// Default is the only namespace of a bare node.
const Default NamespaceID = "default"

// OrgID is the id of an organisation, a customer with one bill. Only an authenticator makes it, like a
// NamespaceID.
type OrgID string

// EveryOrg is the organisation of the operators of the cloud and of its own processes. Only their roles
// limit what they may touch.
const EveryOrg OrgID = "*"
