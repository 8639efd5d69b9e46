// Package server is the node's front door: HTTP in, ops proposed, answers out.
// It owns the table of routes (routes.go), who is asking (auth.go), what each
// route does, one file per noun, and the wait for work (fetch.go). How requests
// become ops is in its subpackage convert. It decides nothing about jobs: what a
// request does is decided in apply. It may import everything of the data plane
// but the packages that wire it.
package server
