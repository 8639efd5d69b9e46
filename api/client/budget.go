package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// A budget is identified by its scope (namespace, queue, tag, key or job) and its target, which is
// "default" for namespace and job.
var budgets = resource[api.BudgetRequest, api.Budget]{path: "/budgets", version: func(x *api.Budget) *int64 { return &x.Version }}

// Budgets lists the budgets that the key may see, with their spending.
func (c *Client) Budgets(ctx context.Context, r Read) ([]api.Budget, error) {
	return budgets.list(ctx, c, r)
}

// Budget returns one budget, with its version.
func (c *Client) Budget(ctx context.Context, scope, target string, r Read) (api.Budget, error) {
	return budgets.get(ctx, c, r, scope, target)
}

// CreateBudget creates a budget. The error is CONFLICT if it exists.
func (c *Client) CreateBudget(ctx context.Context, req api.BudgetRequest) (api.Budget, error) {
	return budgets.create(ctx, c, req)
}

// PutBudget creates or replaces a budget; a replaced budget keeps its spending. If version is not 0 and no
// budget with that version exists, the error is PRECONDITION_FAILED.
func (c *Client) PutBudget(ctx context.Context, scope, target string, req api.BudgetRequest, version int64) (api.Budget, error) {
	return budgets.put(ctx, c, req, version, scope, target)
}

// DeleteBudget deletes a budget and its spending. If version is not 0 and the present version differs,
// the error is PRECONDITION_FAILED.
func (c *Client) DeleteBudget(ctx context.Context, scope, target string, version int64) error {
	return budgets.delete(ctx, c, version, scope, target)
}

// RaiseBudget raises every limit of a budget until a time, in place of an earlier raise. An amount of 0 ends
// the raise. The error is PRECONDITION_FAILED if another client changes the budget at the same time.
func (c *Client) RaiseBudget(ctx context.Context, scope, target string, req api.RaiseBudgetRequest) (api.Budget, error) {
	return budgets.one(ctx, c, call{method: http.MethodPost, path: budgets.at([]string{scope, target, "raise"}), body: req, repeat: repeatKeyed})
}
