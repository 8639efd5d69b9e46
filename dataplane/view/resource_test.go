package view

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// someResource returns a resource of a kind, with all its fields or with few.
func someResource(kind state.ResourceKind, name string, id []byte, createdNs int64, all bool) *state.Resource {
	r := &state.Resource{Kind: kind, Name: name, Id: id, Version: 1, CreatedNs: createdNs, Shards: 1}
	switch kind {
	case state.ResourceKind_RESOURCE_KIND_LIMIT_RULE:
		r.LimitRule = &state.LimitRule{Queue: "q", Key: "k", MaxConcurrency: 1}
	case state.ResourceKind_RESOURCE_KIND_PROVIDER:
		if r.Provider = (&state.Provider{}); all {
			r.Provider = &state.Provider{Requests: 50, InputTokens: 40_000, OutputTokens: 8000}
		}
	case state.ResourceKind_RESOURCE_KIND_PRICE, state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE:
		r.Price = &state.Price{Model: "m", InputNanoUsd: 1}
	case state.ResourceKind_RESOURCE_KIND_BUDGET:
		r.Budget = &state.Budget{Scope: state.BudgetScope_BUDGET_SCOPE_QUEUE, Target: "q", Limits: []*state.SpendLimit{{Window: state.Window_WINDOW_DAY}}}
		if all {
			r.Budget.Limits = []*state.SpendLimit{{Window: state.Window_WINDOW_MONTH, LimitNanoUsd: 500e9}, {Window: state.Window_WINDOW_DAY, LimitNanoUsd: 20_500_000_001}}
			r.Budget.PerJobNanoUsd, r.Budget.OnExceed = 1e9, state.OnExceed_ON_EXCEED_THROTTLE
		}
	case state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY:
		if r.ApprovalPolicy = (&state.ApprovalPolicy{Label: "all", Disabled: true, CostSaid: true}); all {
			r.ApprovalPolicy = &state.ApprovalPolicy{Label: "dear", All: true, Queue: "q", TagKey: "tier", TagValue: "gold", CostNanoUsdOver: 5e9, CostSaid: true, IterationOver: 3, IterationSaid: true}
		}
	case state.ResourceKind_RESOURCE_KIND_ALERT_RULE:
		r.AlertRule = &state.AlertRule{Label: "deep"}
	case state.ResourceKind_RESOURCE_KIND_WEBHOOK:
		if r.Webhook = (&state.Webhook{Url: "https://example.com", Disabled: true}); all {
			r.Webhook = &state.Webhook{Url: "https://example.com/hook", Secret: "hush", Events: []string{"dead", "failed"}, RetryLimit: 3}
		}
	}
	return r
}

// randomResource creates, changes, removes or replaces a resource, and writes the records that depend on it.
func (h *shard) randomResource(tx *state.Tx, r *rand.Rand) {
	h.t.Helper()
	kind := state.ResourceKind(1 + r.IntN(len(state.ResourceKind_name)-1))
	name := fmt.Sprint("queue/", r.IntN(2))
	was := tx.ResourceIndex().Resource(kind, name)
	if was != nil && r.IntN(2) == 0 {
		must(h.t, tx.DeleteResource(kind, name))
		if kind == state.ResourceKind_RESOURCE_KIND_BUDGET {
			must(h.t, tx.PutAccount([16]byte(was.Id), nil))
		}
		if was = nil; r.IntN(2) == 0 {
			return
		}
	}
	id := h.newID()
	next := someResource(kind, name, id[:], tx.ClockNs(), r.IntN(2) == 0)
	if was != nil {
		next.Id, next.Version, next.CreatedNs = was.Id, was.Version+1, was.CreatedNs
	}
	must(h.t, tx.PutResource(next))
	switch kind {
	case state.ResourceKind_RESOURCE_KIND_BUDGET:
		must(h.t, tx.PutAccount([16]byte(next.Id), &state.Account{Id: next.Id, Name: name, ReservedNanoUsd: r.Int64N(10)},
			state.EventType_EVENT_BUDGET_ALERT, state.EventType_EVENT_BUDGET_EXCEEDED))
	case state.ResourceKind_RESOURCE_KIND_ALERT_RULE:
		must(h.t, tx.PutAlert([16]byte(next.Id), &state.Alert{Id: next.Id, Name: name},
			[]state.EventType{state.EventType_EVENT_ALERT_FIRED, state.EventType_EVENT_ALERT_RESOLVED}[r.IntN(2)]))
	}
}

func (h *shard) declare(kind state.ResourceKind, name string, all bool) {
	h.t.Helper()
	id := h.newID()
	h.commit(func(tx *state.Tx) {
		must(h.t, tx.PutResource(someResource(kind, name, id[:], tx.ClockNs(), all)))
	})
}

func TestResourceRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      state.ResourceKind
		table     string
		name      string
		all, less string
	}{
		{state.ResourceKind_RESOURCE_KIND_PROVIDER, "providers", "anthropic",
			"anthropic|50|40000|8000|1970-01-01T00:00:00.001000000Z", "other||||1970-01-01T00:00:00.002000000Z"},
		{state.ResourceKind_RESOURCE_KIND_BUDGET, "budgets", "tag/team=a/b",
			"tag/team=a/b|tag|team=a/b|20.500000001|1|throttle|1970-01-01T00:00:00.001000000Z|500", "other/x|other|x|0||hold|1970-01-01T00:00:00.002000000Z|"},
		{state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY, "approval_policies", "pol_1",
			"pol_1|dear|all|1|q|tier|gold|1970-01-01T00:00:00.001000000Z|5|3", "other|all|any|0||||1970-01-01T00:00:00.002000000Z|0|"},
		{state.ResourceKind_RESOURCE_KIND_WEBHOOK, "webhooks", "hook_1",
			`hook_1|https://example.com/hook|["dead","failed"]||1|3|1970-01-01T00:00:00.001000000Z|||`, "other|https://example.com|[]||0|0|1970-01-01T00:00:00.002000000Z|||"},
	} {
		t.Run(c.table, func(t *testing.T) {
			t.Parallel()
			h := newShard(t)
			other := "other"
			if c.kind == state.ResourceKind_RESOURCE_KIND_BUDGET {
				other = "other/x"
			}
			h.declare(c.kind, c.name, true)
			h.declare(c.kind, other, false)
			query := "SELECT * FROM " + c.table + " ORDER BY created_at"
			h.says(query, c.all+"\n"+c.less)
			h.same()
			// Delete the resource and declare another in its place, between two flushes.
			h.reopen(func() {
				h.commit(func(tx *state.Tx) { must(t, tx.DeleteResource(c.kind, c.name)) })
				h.declare(c.kind, c.name, true)
			})
			h.says(query, c.less+"\n"+strings.ReplaceAll(c.all, ".001", ".004"))
			h.same()
			h.commit(func(tx *state.Tx) { must(t, tx.DeleteResource(c.kind, c.name)) })
			h.says(query, c.less)
			h.commit(func(tx *state.Tx) { must(t, tx.DeleteResource(c.kind, other)) })
			h.says(query, "")
			if strings.Contains(h.dump(), "hush") {
				t.Error("the view has a secret")
			}
			h.same()
			if n := h.logged.rebuilt("it was asked for"); n != h.logged.rebuilt("") {
				t.Errorf("the view was built again instead of following:\n%s", h.logged)
			}
		})
	}
}

// TestNoSecretInTheView checks that the view never has the secret of a webhook, even while the webhook
// exists.
func TestNoSecretInTheView(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.declare(state.ResourceKind_RESOURCE_KIND_WEBHOOK, "hook_1", true)
	if dump := h.dump(); strings.Contains(dump, "hush") || !strings.Contains(dump, "hook_1") {
		t.Errorf("the view is\n%s", dump)
	}
}

// TestOtherResourcesHaveNoRows checks that resources without a table, and the events about any resource,
// change no row.
func TestOtherResourcesHaveNoRows(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	before := h.dump()
	for _, kind := range []state.ResourceKind{state.ResourceKind_RESOURCE_KIND_LIMIT_RULE, state.ResourceKind_RESOURCE_KIND_PRICE,
		state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE, state.ResourceKind_RESOURCE_KIND_ALERT_RULE} {
		h.declare(kind, "x", true)
	}
	h.commit(func(tx *state.Tx) {
		id := job.ID(otherID(1))
		must(t, tx.PutAccount(id, &state.Account{Id: id[:]}, state.EventType_EVENT_BUDGET_ALERT))
		must(t, tx.PutAlert(id, &state.Alert{Id: id[:]}, state.EventType_EVENT_ALERT_FIRED))
	})
	if after := h.dump(); after != before {
		t.Error(firstDifference(before, after))
	}
	h.same()
}

func TestQueueProvider(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.commit(func(tx *state.Tx) {
		q := tx.EnsureQueue("q")
		q.Provider = "anthropic"
		tx.PutQueue(q, evChanged)
		tx.PutQueue(tx.EnsureQueue("r"), evChanged)
	})
	h.says("SELECT name, provider FROM queues ORDER BY name", "q|anthropic\nr|")
	all, err := h.view.Queues(t.Context(), nil)
	must(t, err)
	var providers []string
	for _, q := range all {
		provider := "none"
		if q.Provider != nil {
			provider = *q.Provider
		}
		providers = append(providers, provider)
	}
	if diff := cmp.Diff([]string{"anthropic", "none"}, providers); diff != "" {
		t.Errorf("the providers of the queues (-want +got):\n%s", diff)
	}
}

// TestAThousandResources declares as many resources as a large namespace has, in many flushes, and rebuilds
// them in one.
func TestAThousandResources(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	const many = 1000
	kinds := []state.ResourceKind{state.ResourceKind_RESOURCE_KIND_LIMIT_RULE, state.ResourceKind_RESOURCE_KIND_BUDGET}
	for i := range many {
		h.declare(kinds[i%2], fmt.Sprint("queue/", i), i%3 == 0)
	}
	h.says("SELECT count(*), count(DISTINCT id) FROM budgets", fmt.Sprintf("%d|%[1]d", many/2))
	began := time.Now()
	h.same()
	t.Logf("built in %v", time.Since(began))
	// One changed resource costs at most one reading of the resource index.
	h.declare(state.ResourceKind_RESOURCE_KIND_BUDGET, "queue/new", true)
	h.says("SELECT count(*) FROM budgets", fmt.Sprint(many/2+1))
	h.same()
}
