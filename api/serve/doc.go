// Package serve makes an HTTP server out of a table of routes: matching, authentication, authorisation,
// request ids, timing, metrics, decoding of bodies, encoding of responses, errors as problem responses, and
// the OpenAPI document. Each of our HTTP servers is such a table. The package knows none of their resources
// and imports api, api/text, billing/money, tenancy and telemetry.
package serve
