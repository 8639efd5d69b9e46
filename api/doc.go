// Package api holds the request and response types of Corvo's HTTP API, and the error codes with their
// statuses. Clients, servers and the state machine share it. It contains no server code and imports only
// billing/money.
package api
