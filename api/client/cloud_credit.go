package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Credits lists an organisation's credits, the oldest first.
func (c *Cloud) Credits(ctx context.Context, org string) ([]api.Credit, error) {
	return all[api.Credit](ctx, c.Client, cloudPath("orgs", org, "credits"), nil)
}

// Credit returns a credit of an organisation.
func (c *Cloud) Credit(ctx context.Context, org, id string) (api.Credit, error) {
	return get[api.Credit](ctx, c.Client, cloudPath("orgs", org, "credits", id))
}

// GrantCredit grants a credit to an organisation. The credit is pending if it needs a second operator. It needs an
// operator's key.
func (c *Cloud) GrantCredit(ctx context.Context, org string, req api.GrantCreditRequest) (api.Credit, error) {
	return send[api.Credit](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "credits"), body: req, repeat: repeatKeyed})
}

// ApproveCredit approves a pending credit. The error is FORBIDDEN for the operator who granted it, and for a key that is
// not older than the credit. It needs an operator's key.
func (c *Cloud) ApproveCredit(ctx context.Context, org, id string) (api.Credit, error) {
	return send[api.Credit](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "credits", id, "approve"), repeat: repeatKeyed})
}

// RevokeCredit takes back the unused rest of a credit, or withdraws a pending one. The error is STATE_CONFLICT if the
// credit has ended. It needs an operator's key.
func (c *Cloud) RevokeCredit(ctx context.Context, org, id string, req api.RevokeCreditRequest) (api.Credit, error) {
	return send[api.Credit](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "credits", id, "revoke"), body: req, repeat: repeatKeyed})
}

// Ledger returns the end of the control plane's ledger and its balances. It needs an operator's key.
func (c *Cloud) Ledger(ctx context.Context) (api.Ledger, error) {
	return get[api.Ledger](ctx, c.Client, cloudPath("ledger"))
}

// CloseMonth closes a month of the ledger for ever. The error is STATE_CONFLICT if the month is not over, is closed or
// is not the next one. It needs an operator's key.
func (c *Cloud) CloseMonth(ctx context.Context, month string) (api.Ledger, error) {
	return send[api.Ledger](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("ledger", "close"), body: api.CloseMonthRequest{Month: month}, repeat: repeatKeyed})
}
