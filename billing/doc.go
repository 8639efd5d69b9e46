// Package billing is the arithmetic of metering: quantities of usage, their sums, prices and budgets. Its
// frames are numbered, so that each report is counted once. The package is pure: it stores nothing, reads
// no clock and imports only billing/money.
package billing
