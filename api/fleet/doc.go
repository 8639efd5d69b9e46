// Package fleet is what hosts and gateways say to the control plane and hear from
// it: one numbered stream of signed documents, one a namespace, and the reports
// and usage frames that go back. It is the wire's types and the client's half; the
// control plane's half is controlplane/server.
package fleet
