// Package api is what the outside sees: request and response types, error
// codes and the status each has. Clients, servers and the state machine share
// it; it holds no server code and imports only billing/money.
package api
