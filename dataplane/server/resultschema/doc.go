// Package resultschema compiles the JSON Schemas that clients give for the results of their jobs and checks
// results against them. The package runs on the proposer, so that apply does not spend time on checks. It
// owns the bounds of a schema and of the work of a check; it knows nothing of jobs, ops or HTTP.
//
// Both the schema and the result come from a client, so neither may take time or memory out of proportion. A
// schema refers to nothing outside itself except the standard's own metaschemas, is bounded in size, depth
// and parts, and its regular expressions are RE2. A small schema that branches and recurs could still take
// any time, so the meter counts and bounds the work of each check.
//
// The package may import the schema library, which no other package imports, package job for the bounds, and
// api/text.
package resultschema
