// Package resultschema reads the JSON Schemas that clients give for the results of
// their jobs, and holds results against them: at the proposer, because apply never
// parses a document. It owns what a schema may be and how much work one may make; it
// knows nothing of jobs, ops or HTTP.
//
// Both the schema and the result come from a client, so nothing here may take time
// or memory out of proportion: a schema refers to nothing outside itself, is bounded
// in size, depth and parts, and its regular expressions are RE2. What that leaves,
// small schemas that branch and recur, is bounded by counting the work of a check.
//
// It may import the schema library, which nobody else does, and package job for the
// bounds.
package resultschema
