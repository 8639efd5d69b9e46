package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// budgets declares the resource for budgets, which limit the cost of jobs by scope and target.
var budgets = &resource[api.BudgetRequest, api.Budget]{
	kind: state.ResourceKind_RESOURCE_KIND_BUDGET, path: "/budgets", item: "/{scope}/{target}", one: "budget", many: "budgets",
	read: tenancy.QueueRead, write: tenancy.QueueManage,

	named:  func(r *http.Request) string { return r.PathValue("scope") + "/" + r.PathValue("target") },
	nameOf: func(body *api.BudgetRequest) string { return body.Scope + "/" + body.Target },
	nameIn: "target",
	complete: func(body *api.BudgetRequest, r *http.Request) {
		if body.Scope == "" && body.Target == "" {
			body.Scope, body.Target = r.PathValue("scope"), r.PathValue("target")
		}
	},
	from: convert.FromBudget,
	to: func(c *cell.Cell, r *state.Resource) (api.Budget, error) {
		v := c.State().Snapshot()
		defer v.Close()
		a, err := v.Account([16]byte(r.Id))
		if err != nil {
			return api.Budget{}, err
		}
		learned := int64(0)
		if r.Budget.Scope == state.BudgetScope_BUDGET_SCOPE_QUEUE {
			q, err := v.Queue(r.Budget.Target)
			if err != nil {
				return api.Budget{}, err
			}
			learned = q.GetExpectedCostNanoUsd()
		}
		return convert.ToBudget(r, a, learned, c.NowNs()), nil
	},
	queue: func(r *state.Resource) string {
		if r.Budget.GetScope() == state.BudgetScope_BUDGET_SCOPE_QUEUE {
			return r.Budget.Target
		}
		return ""
	},
	at: func(q *request, r *state.Resource) *cell.Cell {
		if r.Budget.Scope == state.BudgetScope_BUDGET_SCOPE_QUEUE {
			return q.shards.Of(r.Budget.Target)
		}
		return q.shards.Home()
	},
}

// budgetRoutes returns the routes that every resource has and the route that raises a budget.
func (s *Server) budgetRoutes() []serve.Route {
	return append(budgets.routes(s), serve.Route{
		Method: "POST", Path: "/api/v1/budgets/{scope}/{target}/raise", Permission: tenancy.QueueManage, Handler: s.raiseBudget,
		Summary: "Raise the limits of a budget temporarily", Request: api.RaiseBudgetRequest{}, Response: api.Budget{},
	})
}

// raiseBudget declares the budget again with the raise and no other change.
func (s *Server) raiseBudget(w http.ResponseWriter, r *http.Request) error {
	var body api.RaiseBudgetRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	if err := s.awaitPresent(r, &q, q.shards.Home()); err != nil {
		return err
	}
	was, err := budgets.find(&q, r)
	if err != nil {
		return err
	}
	if err := budgets.allow(&q, was); err != nil {
		return err
	}
	var f convert.Faults
	home := q.shards.Home()
	o := convert.FromRaise(&f, &body, was, home.NowNs())
	if err := f.Err(); err != nil {
		return err
	}
	id := home.NewID("")
	o.Meta, o.IfVersion = q.meta, was.Version // refuse the raise after a concurrent change, so that it does not undo the change
	o.Meta.Ids = [][]byte{id[:]}
	o.Resource.Kind, o.Resource.Name, o.Resource.Shards = was.Kind, was.Name, uint32(q.shards.Count())
	result, err := commit[*op.PutResourceResult](s, w, r, &q, home, o)
	if err != nil {
		return err
	}
	shown, err := budgets.to(budgets.cellOf(&q, result.Resource), result.Resource)
	if err != nil {
		return err
	}
	return writeVersion(w, http.StatusOK, result.Resource.Version, shown)
}
