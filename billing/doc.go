// Package billing is the arithmetic of metering and of bills: quantities of usage, their sums, prices, budgets, plans and
// the rating of a month. Its frames are numbered, so that each report is counted once. The package is pure: it stores
// nothing, reads no clock and imports only billing/money.
package billing
