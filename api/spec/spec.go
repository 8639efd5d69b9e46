// Package spec embeds the API documents that are generated from the route tables of the servers. Tests
// compare each file with its table.
package spec

import _ "embed"

// Node is the OpenAPI document of the data plane, the same on a node and behind the gateway of the cloud.
//
//go:embed openapi.json
var Node []byte
