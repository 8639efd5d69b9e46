package tenancy

// NamespaceID names a namespace, the unit of isolation. It is a type of its own
// so that no string from a request can be taken for one: only what
// authenticates a request makes it.
type NamespaceID string

// Default is the one namespace of a bare node.
const Default NamespaceID = "default"
