// Package server is the HTTP server of the control plane: the cloud API for people and their tools, and the
// fleet protocol for hosts and gateways. It owns the table of routes (routes.go), authentication (auth.go),
// the signing keys (signer.go), the root of the fleet's certificates (authority.go) and the handlers, one
// file per noun. Package store decides the effect of a change, and package plan the steps that follow from
// it. This package may import every package of the control plane except controlplane itself, which assembles
// them.
package server
