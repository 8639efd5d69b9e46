// Package corvo holds nothing but the tests of the tree itself: see
// arch_test.go for the rules and ARCHITECTURE.md for the map.
package corvo
