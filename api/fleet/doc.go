// Package fleet is the protocol between the control plane and its members, the hosts and gateways. A member
// follows one numbered stream of signed documents, each about one namespace, and sends reports and usage
// frames. The package has the types of the protocol and the member's side. The control plane's side is
// controlplane/server.
package fleet
