// Package server is the control plane's front door: the cloud API for people and
// their tools, and the fleet protocol for hosts and gateways. It owns the table of
// routes (routes.go), who is asking (auth.go), the keys that sign (signer.go) and
// what each route does, one file per noun. What a change does is decided in store,
// what follows from it in plan. It may import everything of the control plane but
// the package that wires it.
package server
