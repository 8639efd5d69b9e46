// Package fleet is the protocol between the control plane and its members, the hosts and gateways: one
// numbered stream of signed documents, one per namespace, and in the other direction reports and usage
// frames. It has the types of the protocol and the member's side. The control plane's side is
// controlplane/server.
package fleet
