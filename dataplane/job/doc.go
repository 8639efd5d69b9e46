// Package job holds the nouns of the data plane and their pure rules: ids,
// states and the lifecycle table, backoff, names and limits. It reads no clock,
// no randomness and no store; see the root package's arch_test.go for what it
// may import.
package job
