// Package billing is the arithmetic of metering: what is counted, and how counts
// are added up so that each is counted once, and what they cost. It is pure: it stores nothing, reads
// no clock and imports only billing/money.
package billing
