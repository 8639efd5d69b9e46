package api

import "github.com/corvo/corvo/billing/money"

// Ledger describes the control plane's ledger.
type Ledger struct {
	Transactions int64  `json:"transactions"` // number of the newest transaction
	Hash         string `json:"hash"`         // of the newest transaction and all before it; hex SHA-256
	// ClosedUntil is the end of the closed months. No transaction gets an earlier time. Absent = no month is closed.
	ClosedUntil *Time           `json:"closed_until,omitempty"`
	Accounts    []LedgerAccount `json:"accounts"`
}

// LedgerAccount is an account of the ledger with its balance over all organisations.
type LedgerAccount struct {
	Account    uint32      `json:"account"`
	Name       string      `json:"name"`
	Kind       string      `json:"kind"`        // debit or credit: the side of a normal balance
	BalanceUSD money.Total `json:"balance_usd"` // positive = debit, negative = credit
}

// CloseMonthRequest closes a month of the ledger for ever.
type CloseMonthRequest struct {
	Month string `json:"month"` // a calendar month in UTC, such as 2026-02
}
