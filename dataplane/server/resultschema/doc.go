// Package resultschema compiles the JSON Schemas that clients give for the results of their jobs and checks
// results against them. It runs on the proposer, because apply never parses a document. It owns the bounds of
// a schema and of the work of a check; it knows nothing of jobs, ops or HTTP.
//
// Both the schema and the result come from a client, so neither may take time or memory out of proportion. A
// schema refers to nothing outside itself, is bounded in size, depth and parts, and its regular expressions
// are RE2. Small schemas that branch and recur remain; counting the work of a check bounds them.
//
// It may import the schema library, which no other package imports, package job for the bounds, and api/text.
package resultschema
