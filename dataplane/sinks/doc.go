// Package sinks delivers the data that leaves a shard by itself: the usage that workers reported, to its
// biller; ops, to other shards; and events, to webhooks. A sink runs while its shard leads, and reads only
// committed state. The receivers of usage and ops remember what has arrived, and the shard records the result
// of each attempt on a webhook. So a sink can stop at any moment and continue on another member.
//
// The package imports job, op, state, billing and api. It knows neither raft nor HTTP servers. The interfaces
// of receivers are declared here.
package sinks
