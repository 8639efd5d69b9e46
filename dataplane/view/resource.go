package view

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A resource is something declared for the namespace. The view has rows for the kinds whose tables the
// contract promises, and none for the other kinds. It shows no later effects of a resource either, such as
// the money that a budget has spent, so that events about them change no row.

// resourceTable is the table of one kind of resource. Its first columns are common to all kinds: id, name and
// created_ns.
type resourceTable struct {
	kind    state.ResourceKind
	name    string
	columns []string
	values  func(r *state.Resource) ([]any, error)
}

// resourceTables are all tables of resources.
var resourceTables = [...]resourceTable{
	{state.ResourceKind_RESOURCE_KIND_PROVIDER, "provider", []string{"rpm_limit", "input_tpm_limit", "output_tpm_limit"}, providerValues},
	{state.ResourceKind_RESOURCE_KIND_BUDGET, "budget", []string{"daily_nano_usd", "monthly_nano_usd", "per_job_nano_usd", "on_exceed"}, budgetValues},
	{state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY, "approval_policy",
		[]string{"label", "mode", "enabled", "queue", "tag_key", "tag_value", "cost_nano_usd_gt", "agent_iteration_gt"}, policyValues},
	{state.ResourceKind_RESOURCE_KIND_WEBHOOK, "webhook", []string{"url", "events", "enabled", "retry_limit"}, webhookValues},
	{state.ResourceKind_RESOURCE_KIND_ROLE, "role", []string{"permissions"}, roleValues},
}

func (t *resourceTable) putSQL() string {
	return fmt.Sprintf("INSERT OR REPLACE INTO %s (id, name, created_ns, %s) VALUES (?, ?, ?%s)",
		t.name, strings.Join(t.columns, ", "), strings.Repeat(", ?", len(t.columns)))
}

func (t *resourceTable) dropSQL() string { return fmt.Sprintf("DELETE FROM %s WHERE id = ?", t.name) }

// resourceStatements returns the statements that write the rows of resources.
func (w *writer) resourceStatements() (all []statement) {
	for i, t := range resourceTables {
		all = append(all, statement{&w.putResource[i], t.putSQL()}, statement{&w.dropResource[i], t.dropSQL()})
	}
	return all
}

// writeResources makes the rows of resources agree with the resource index.
func (t *touchedRecords) writeResources(w *writer, records *state.JobIterator) error {
	if len(t.resources) == 0 {
		return nil
	}
	index, err := records.ResourceIndex()
	if err != nil {
		return err
	}
	for _, id := range inOrder(t.resources) {
		r := index.ResourceByID(id)
		if r == nil {
			err = w.forgetResource(id)
		} else {
			err = w.resource(r)
		}
		if err != nil {
			return fmt.Errorf("resource %x: %w", id, err)
		}
	}
	return nil
}

// loadResources writes the rows of every resource.
func loadResources(w *writer, snap *state.Snapshot) error {
	index, err := snap.ResourceIndex()
	if err != nil {
		return err
	}
	for _, t := range resourceTables {
		for _, r := range index.Resources(t.kind) {
			if err := w.resource(r); err != nil {
				return fmt.Errorf("%s %q: %w", t.name, r.Name, err)
			}
		}
	}
	return nil
}

// resource writes a resource's row, if its kind has a table.
func (w *writer) resource(r *state.Resource) error {
	for i, t := range resourceTables {
		if t.kind != r.Kind {
			continue
		}
		values, err := t.values(r)
		if err != nil {
			return err
		}
		return w.exec(w.putResource[i], append([]any{r.Id, r.Name, r.CreatedNs}, values...)...)
	}
	return nil
}

// forgetResource drops the row of a resource that no longer exists. It tries the table of every kind, because
// the kind is no longer known either.
func (w *writer) forgetResource(id job.ID) error {
	for _, drop := range w.dropResource {
		if err := w.exec(drop, id[:]); err != nil {
			return err
		}
	}
	return nil
}

func providerValues(r *state.Resource) ([]any, error) {
	p := r.Provider
	return []any{nullable(int64(p.GetRequests())), nullable(int64(p.GetInputTokens())), nullable(int64(p.GetOutputTokens()))}, nil
}

func budgetValues(r *state.Resource) ([]any, error) {
	var daily, monthly any
	for _, l := range r.Budget.GetLimits() {
		switch l.Window {
		case state.Window_WINDOW_DAY:
			daily = l.LimitNanoUsd // even if it is 0, which means that nothing may be spent
		case state.Window_WINDOW_MONTH:
			monthly = l.LimitNanoUsd
		}
	}
	return []any{daily, monthly, nullable(r.Budget.GetPerJobNanoUsd()), onExceedWord(r.Budget.GetOnExceed())}, nil
}

func onExceedWord(o state.OnExceed) string {
	switch o {
	case state.OnExceed_ON_EXCEED_HOLD:
		return "hold"
	case state.OnExceed_ON_EXCEED_REJECT:
		return "reject"
	case state.OnExceed_ON_EXCEED_ALERT_ONLY:
		return "alert_only"
	case state.OnExceed_ON_EXCEED_THROTTLE:
		return "throttle"
	}
	return fmt.Sprintf("on_exceed(%d)", int32(o))
}

func policyValues(r *state.Resource) ([]any, error) {
	p := r.ApprovalPolicy
	mode := "any"
	if p.GetAll() {
		mode = "all"
	}
	var cost, iteration any
	if p.GetCostSaid() {
		cost = p.CostNanoUsdOver
	}
	if p.GetIterationSaid() {
		iteration = int64(p.IterationOver)
	}
	return []any{p.GetLabel(), mode, !p.GetDisabled(), text(p.GetQueue()), text(p.GetTagKey()), text(p.GetTagValue()), cost, iteration}, nil
}

func webhookValues(r *state.Resource) ([]any, error) {
	events, err := listText(r.Webhook.GetEvents())
	return []any{r.Webhook.GetUrl(), events, !r.Webhook.GetDisabled(), int64(r.Webhook.GetRetryLimit())}, err
}

func roleValues(r *state.Resource) ([]any, error) {
	text, err := listText(r.Role.GetPermissions())
	return []any{text}, err
}

// listText returns a list of texts as JSON, or [] for an empty list.
func listText(list []string) (string, error) {
	text, err := json.Marshal(append([]string{}, list...))
	return string(text), err
}
