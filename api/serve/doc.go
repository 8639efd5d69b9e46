// Package serve makes an HTTP server out of a table of routes: matching, authentication, authorisation,
// request ids, timing, metrics, decoding of bodies, encoding of responses, errors as problem responses,
// and the OpenAPI document. All our servers are tables for this package. It knows none of their resources
// and imports api, tenancy and telemetry.
package serve
