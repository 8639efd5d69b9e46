// Package spec holds the OpenAPI documents that are generated from the route tables of the servers, and the
// list of error codes. Tests compare each file with its source. The package embeds the document of the data
// plane.
package spec

import _ "embed"

// Node is the OpenAPI document of the data plane, the same on a node and behind the gateway of the cloud.
//
//go:embed openapi.json
var Node []byte
