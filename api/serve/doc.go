// Package serve turns a table of routes into an HTTP server: matching,
// authentication, authorisation, request ids, timing, metrics, bodies in and
// out, errors as problem answers, and the OpenAPI document. Every server of
// ours is a table for this package. It knows no noun of any of them and imports
// api, tenancy and telemetry.
package serve
