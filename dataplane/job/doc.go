// Package job holds the types of the data plane and their pure rules: ids, states and the lifecycle table,
// backoff, names and limits. It reads no clock, no randomness and no store; the root package's arch_test.go
// says what it may import.
package job
