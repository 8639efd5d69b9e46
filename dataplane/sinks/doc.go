// Package sinks delivers what leaves a shard by itself: the usage that workers reported, to its biller; ops
// for other shards; and events for webhooks. A sink runs while its shard leads, and reads only committed
// state. The receiver remembers what has arrived, so that a sink can stop at any moment and continue on
// another member.
//
// It imports op, state, billing and api. It knows neither raft nor HTTP servers. The interfaces of receivers
// are declared here.
package sinks
