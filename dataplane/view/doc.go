// Package view is the read model of a shard: a SQLite file that follows the
// store's feed and answers searches and lists. Every row is a function of the
// store's records alone, so the file can be thrown away and built again at any
// time; no op ever reads it, and writing to it never holds up an op. DESIGN.md
// has the reasons.
//
// It owns the schema, the projection, search and the job document clients see.
// It decides nothing about jobs and knows neither HTTP nor who is asking. Of
// ours it imports api, billing/money, dataplane/job and dataplane/state; only
// this package of the data plane imports SQLite.
package view
