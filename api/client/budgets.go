package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// A budget is named by its scope (namespace, queue, tag, key or job) and its target;
// that of a namespace's or job's is "default".
var budgets = noun[api.BudgetRequest, api.Budget]{path: "/budgets", version: func(x *api.Budget) *int64 { return &x.Version }}

// Budgets lists the budgets of what the key may see, with what they have come to.
func (c *Client) Budgets(ctx context.Context, r Read) ([]api.Budget, error) {
	return budgets.list(ctx, c, r)
}

// Budget is one budget, with its version.
func (c *Client) Budget(ctx context.Context, scope, target string, r Read) (api.Budget, error) {
	return budgets.get(ctx, c, r, scope, target)
}

// CreateBudget makes a budget where there is none.
func (c *Client) CreateBudget(ctx context.Context, req api.BudgetRequest) (api.Budget, error) {
	return budgets.create(ctx, c, req)
}

// PutBudget replaces a budget or makes it; what it has come to stays. With a version
// other than 0 it must be there and still be at that.
func (c *Client) PutBudget(ctx context.Context, scope, target string, req api.BudgetRequest, version int64) (api.Budget, error) {
	return budgets.put(ctx, c, req, version, scope, target)
}

// DeleteBudget removes a budget with what it has come to, with a version other than 0
// only if it is still at that.
func (c *Client) DeleteBudget(ctx context.Context, scope, target string, version int64) error {
	return budgets.delete(ctx, c, version, scope, target)
}

// RaiseBudget raises every limit of a budget for a while, in place of a raise before;
// an amount of 0 ends that.
func (c *Client) RaiseBudget(ctx context.Context, scope, target string, req api.RaiseBudgetRequest) (api.Budget, error) {
	return budgets.one(ctx, c, call{method: http.MethodPost, path: budgets.at([]string{scope, target, "raise"}), body: req, repeat: repeatKeyed})
}
