package op_test

import (
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// Where the parts that govern jobs meet.

// A queue whose only jobs with fairness keys wait at a gate has no lanes meanwhile; it
// gets them again, with right counts, when the gate opens.
func TestGateOpensIntoLanes(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]int{"alone": 0, "beside jobs without a key": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(w.putProvider("p", &state.Provider{Requests: 1}))
			o := w.keyed("q", "k", 1, 3)
			for _, nj := range o.Jobs {
				nj.Opt().Provider = "p"
			}
			w.apply(o)
			first := one[*op.FetchResult](w, w.fetch("q", 3))
			if len(first.Jobs) != 1 {
				t.Fatalf("%d jobs were let go of one a minute", len(first.Jobs))
			}
			w.apply(ack(first.Jobs...))
			if n := w.store.Head().LaneRecords; n != 0 {
				t.Fatalf("%d lanes are left of a queue all of whose jobs wait at a gate", n)
			}
			w.apply(w.newJobs("q", plain+1)) // one is fetched, so that the queue counts active jobs, too
			w.apply(w.fetch("q", 1))
			w.apply(w.putProvider("p", &state.Provider{}))
			if r := one[*op.OpenGateResult](w, &op.OpenGate{JobIds: o.Meta.Ids}); r.Opened != 2 {
				t.Fatalf("%d jobs left the gate", r.Opened)
			}
			w.check()
			if got := one[*op.FetchResult](w, w.fetch("q", 9)); len(got.Jobs) != plain+2 {
				t.Errorf("%d jobs were fetched, of %d", len(got.Jobs), plain+2)
			}
			w.check()
			w.checkReplica()
		})
	}
}

// A worker that reports no tokens is not kept to one attempt at a time for ever, because its first ack shows
// that an attempt uses hardly any tokens.
func TestProviderLearnsFromAcks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(w.putProvider("p", &state.Provider{InputTokens: 1000, OutputTokens: 1000}))
	o := w.jobsFor("p", "q", 9)
	w.apply(o)
	first := one[*op.FetchResult](w, w.fetch("q", 9))
	if len(first.Jobs) != 1 {
		t.Fatalf("%d attempts run while nothing is known of what they use", len(first.Jobs))
	}
	w.apply(ack(first.Jobs...))
	w.apply(&op.OpenGate{JobIds: o.Meta.Ids})
	if next := one[*op.FetchResult](w, w.fetch("q", 9)); len(next.Jobs) != 8 {
		t.Errorf("%d attempts run beside each other of one that used nothing", len(next.Jobs))
	}
}

// The budget check of an approval with changes uses the changed job, because the reserve depends on the agent's
// changed bounds.
func TestApproveChangesWhatIsReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(w.newBudget("queue", "q", &state.Budget{
		Limits: []*state.SpendLimit{{Window: state.Window_WINDOW_DAY, LimitNanoUsd: 100}}, ReserveNanoUsd: 1,
	}))
	o := w.newJobs("q", 1)
	o.Jobs[0].Opt().Agent = &job.AgentConfig{MaxCostNanoUsd: 150}
	w.apply(o)
	id := o.Meta.Ids[0]
	w.apply(w.fetch("q", 1))
	if j := w.job(id); j.State != job.Held || j.Detail.GetHold() != job.Hold_HOLD_BUDGET {
		t.Fatalf("it is %s", j.State.Word())
	}
	approve := func(most int64) *op.Refusal {
		c := &op.Changes{Agent: &job.AgentConfig{MaxCostNanoUsd: most}}
		return one[*op.JobsResult](w, &op.ReleaseJobs{JobIds: [][]byte{id}, Changes: c}).Items[0].Refusal
	}
	if refused := approve(101); api.Code(refused.GetCode()) != api.BudgetExceeded {
		t.Errorf("it is let go with more than the budget has: %v", refused)
	}
	if j := w.job(id); j.Options.Agent.MaxCostNanoUsd != 150 {
		t.Errorf("a refused approval has changed its max_cost to %d", j.Options.Agent.MaxCostNanoUsd)
	}
	if refused := approve(80); refused.GetCode() != "" {
		t.Errorf("it is kept though the budget has room for it: %v", refused)
	}
	if got := one[*op.FetchResult](w, w.fetch("q", 1)); len(got.Jobs) != 1 {
		t.Errorf("it is not fetched: %s", w.job(id).Detail.GetHoldReason())
	}
	w.checkReplica()
}

// An approval for a job's model stays valid when a policy holds the job later.
func TestApprovalsDoNotForgetEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(&op.SetSettings{Settings: &state.Settings{UnknownModel: state.UnknownModel_UNKNOWN_MODEL_HOLD}})
	o := w.newJobs("q", 1)
	o.Jobs[0].Opt().Model = "unheard-of"
	w.apply(o)
	id := o.Meta.Ids[0]
	approve := func() {
		w.apply(w.fetch("q", 1))
		if j := w.job(id); j.State != job.Held {
			t.Fatalf("it is %s", j.State.Word())
		}
		one[*op.JobsResult](w, &op.ReleaseJobs{JobIds: [][]byte{id}})
	}
	approve() // its model
	policy := w.newID("")
	w.apply(&op.PutResource{Meta: &op.Meta{Ids: [][]byte{policy[:]}}, Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY, Name: "pol", Shards: 1, ApprovalPolicy: &state.ApprovalPolicy{Label: "l", Queue: "q"},
	}})
	approve() // the policy
	if got := one[*op.FetchResult](w, w.fetch("q", 1)); len(got.Jobs) != 1 {
		t.Errorf("it is held again: %s", w.job(id).Detail.GetHoldReason())
	}
}

// The next job of a chain keeps the fairness key: it shares its queue and uses its budget by that key.
func TestChainsKeepTheirKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.newJobs("q0", 1)
	o.Jobs[0].FairnessKey, o.Jobs[0].FairnessWeight = "acme", 7
	o.Jobs[0].Chain = &job.Chain{Steps: []*job.Step{{Queue: "q0"}, {Queue: "q1"}}, Exit: &job.Step{Queue: "q2"}}
	w.apply(o)
	for _, queue := range []string{"q0", "q1", "q2"} {
		got := one[*op.FetchResult](w, w.fetch(queue, 1))
		if len(got.Jobs) != 1 {
			t.Fatalf("nothing is in %s", queue)
		}
		if j := w.job(got.Jobs[0].Id); j.FairnessKey != "acme" || j.FairnessWeight != 7 {
			t.Errorf("the job in %s is for %q with weight %d", queue, j.FairnessKey, j.FairnessWeight)
		}
		w.apply(ack(got.Jobs...))
	}
	w.check()
}

// The result of a replay has to match the schema of the original job.
func TestReplaysKeepTheirSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.newJobs("q", 1)
	o.Jobs[0].ResultSchema = &job.Blob{Data: []byte(`{"type":"object"}`)}
	w.apply(o)
	first := ack(one[*op.FetchResult](w, w.fetch("q", 1)).Jobs...)
	first.Items[0].AgentStatus = job.Continue
	w.apply(first)
	id := w.newID("q")
	one[*op.ReplayJobResult](w, &op.ReplayJob{Meta: &op.Meta{Ids: [][]byte{id[:]}}, JobId: o.Meta.Ids[0], From: 1})
	if b, err := w.store.Blob(id, job.ResultSchema); err != nil || string(b.GetData()) != `{"type":"object"}` {
		t.Errorf("its schema is %q (%v)", b.GetData(), err)
	}
}

// OldestReady counts the jobs with fairness keys, too.
func TestOldestReadyOfKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	oldest := func() int64 {
		v := w.store.Snapshot()
		defer v.Close()
		ns, err := v.OldestReady("q")
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
	begin := w.clockNs
	w.apply(w.keyed("q", "a", 1, 1))
	w.clockNs += int64(time.Minute)
	w.apply(w.keyed("q", "b", 1, 1), w.newJobs("q", 1), w.keyed("qq", "b", 1, 1))
	if got := oldest(); got != begin {
		t.Errorf("the first has waited since %d, not %d", got, begin)
	}
	w.apply(w.fetch("q", 2)) // the one without a key, and the first
	if got := oldest(); got != begin+int64(time.Minute) {
		t.Errorf("the next has waited since %d, not %d", got, begin+int64(time.Minute))
	}
}

// OldestReady looks behind jobs that became ready late, such as retries, for one that has waited longer, but
// behind at most state.OldestLooks of them.
func TestOldestReadyBehindLateJobs(t *testing.T) {
	t.Parallel()
	for late, exact := range map[int]bool{1: true, state.OldestLooks: true, state.OldestLooks + 1: false} {
		w := newWorld(t)
		begin, dueNs := w.clockNs, w.clockNs+int64(time.Hour)
		o := w.newJobs("q", late)
		for _, nj := range o.Jobs {
			nj.ScheduledNs = dueNs
		}
		w.apply(o, w.newJobs("q", 1))
		w.clockNs = dueNs
		for ids := range slices.Chunk(o.Meta.Ids, job.MaxDutyItems) {
			w.apply(&op.Promote{JobIds: ids})
		}
		v := w.store.Snapshot()
		got, err := v.OldestReady("q")
		if err != nil {
			t.Fatal(err)
		}
		v.Close()
		if want := map[bool]int64{true: begin, false: dueNs}[exact]; got != want {
			t.Errorf("behind %d late ones: since %d, not %d", late, got, want)
		}
	}
}
