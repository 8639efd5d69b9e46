// Package view is the read model of a shard: a SQLite file that follows the store's feed and answers searches and
// lists. Every row that clients see is a function of the store's records alone, so the view can throw the file away
// and build it again at any time. No op reads the file, and writing it never delays an op. DESIGN.md gives the
// reasons.
//
// The package owns the schema, the projection, search and the job document that clients see. It decides
// nothing about jobs and knows neither HTTP nor the caller's identity. Of our packages it imports api,
// api/fault, api/text, billing/money, dataplane/job, dataplane/state and dataplane/view/jq. No other package
// of the data plane imports SQLite.
package view
