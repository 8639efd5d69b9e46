package tenancy

// NamespaceID is the id of a namespace, the unit of isolation. It is a separate type so that no string from a
// request is mistaken for one: a request gets its NamespaceID from the authenticator.
type NamespaceID string

// Default is the only namespace of a bare node.
const Default NamespaceID = "default"

// OrgID is the id of an organisation, a customer with one bill. A request gets it from the authenticator,
// like a NamespaceID.
type OrgID string

// EveryOrg is the organisation of the operators of the cloud and of its own processes. On the control plane
// they belong to every organisation, so only their roles limit what they may do there.
const EveryOrg OrgID = "*"
