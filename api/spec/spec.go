// Package spec is the API as documents: what the servers' tables of routes say,
// written down. Tests hold each file against its table.
package spec

import _ "embed"

// Node is the OpenAPI document of the data plane, the same at a node of one's own
// and behind the cloud's gateway.
//
//go:embed openapi.json
var Node []byte
