// Package sinks is what leaves a shard by itself: the usage its workers reported,
// on its way to whoever bills it, and the ops that other shards have to apply. A
// sink runs while its shard leads and reads what is committed; what has arrived is
// the receiver's to remember, so a sink that ends at any moment and starts again
// anywhere goes on where it was.
//
// It imports op, state, billing and api; it knows neither raft nor HTTP. Receivers
// are interfaces declared here.
package sinks
