package server

import (
	"encoding/hex"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// ledgerRoutes returns the routes of the ledger. An auditor verifies and exports the ledger without a server.
func (s *Server) ledgerRoutes() []serve.Route {
	const path = cloud + "/ledger"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.FleetOperate, Handler: s.getLedger,
			Summary: "Get the end of the ledger and its balances", Response: api.Ledger{}},
		{Method: "POST", Path: path + "/close", Permission: tenancy.FleetOperate, Handler: s.closeMonth,
			Summary: "Close a month of the ledger for ever", Description: "Months are closed in order, when they are over. No transaction gets a time in a closed month.",
			Request: api.CloseMonthRequest{}, Response: api.Ledger{}},
	}
}

func (s *Server) getLedger(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.begin(r, nil); err != nil {
		return err
	}
	return s.writeLedger(w, r)
}

func (s *Server) closeMonth(w http.ResponseWriter, r *http.Request) error {
	var body api.CloseMonthRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	start, err := time.Parse("2006-01", body.Month)
	if err != nil || start.Year() < 2000 || start.Year() > 2200 {
		return api.Errorf(api.ValidationError, "month: %s is not a month: write it like 2026-02", text.Quote(body.Month))
	}
	if _, err := propose[any](r.Context(), s, &store.CloseMonth{Meta: q.meta, EndNs: start.AddDate(0, 1, 0).UnixNano()}); err != nil {
		return err
	}
	return s.writeLedger(w, r)
}

func (s *Server) writeLedger(w http.ResponseWriter, r *http.Request) error {
	l, err := s.store.Ledger(r.Context())
	if err != nil {
		return err
	}
	out := api.Ledger{Transactions: l.Transactions, Hash: hex.EncodeToString(l.Hash[:]), ClosedUntil: optional(l.ClosedNs)}
	for _, b := range l.Balances {
		out.Accounts = append(out.Accounts, api.LedgerAccount{Account: uint32(b.Account.Account), Name: b.Account.Name, Kind: string(b.Account.Normal), BalanceUSD: b.Balance})
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}
