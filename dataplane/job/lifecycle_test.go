package job_test

import (
	"flag"
	"os"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestDiagramIsGolden(t *testing.T) {
	t.Parallel()
	const golden = "testdata/lifecycle.mmd"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(job.Diagram()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := job.Diagram(); got != string(want) {
		t.Errorf("the lifecycle differs from %s; run with -rewrite if that is meant:\n%s", golden, got)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from job.State
		on   job.Event
		to   job.State // 0: cannot happen
	}{
		{0, job.OnEnqueue, job.Pending},
		{0, job.OnSchedule, job.Scheduled},
		{job.Retrying, job.OnPromote, job.Pending},
		{job.Active, job.OnAck, job.Completed},
		{job.Active, job.OnReturn, job.Pending},
		{job.Active, job.OnReclaim, job.Pending},
		{job.Active, job.OnReclaimLast, job.Dead},
		{job.Active, job.OnContinue, job.Pending},
		{job.Active, job.OnSuspend, job.Held},
		{job.Pending, job.OnContinue, 0},
		{job.Pending, job.OnSuspend, 0},
		{job.Completed, job.OnAck, 0},
		{job.Pending, job.OnEnqueue, 0},
		{job.Pending, job.OnPromote, 0},
		{job.Dead, job.OnFetch, 0},
		{job.Held, job.OnFetch, 0},
		{job.States, job.OnFetch, 0},
		{-1, job.OnFetch, 0},
		{job.Pending, 200, 0},
		{job.Held, job.OnApprove, job.Pending},
		{job.Held, job.OnHold, 0},
		{job.Held, job.OnPromote, 0},
		{job.Active, job.OnCancel, 0},
		{job.Active, job.OnStop, job.Active},
		{job.Active, job.OnHold, 0},
		{job.Pending, job.OnStop, 0},
		{job.Pending, job.OnReject, 0},
		{job.Pending, job.OnRevive, 0},
		{job.Dead, job.OnExpire, 0},
		{job.Dead, job.OnRevive, job.Pending},
	} {
		to, ok := job.Transition(c.from, c.on)
		if to != c.to || ok != (c.to != 0) {
			t.Errorf("Transition(%s, %s) = %s, %v; want %s", c.from.Word(), c.on, to.Word(), ok, c.to.Word())
		}
	}
}

// Every job can end: a settled state is reachable from each state that an event leads to. Only a person's
// action takes a job out of a settled state, so that an ended job stays ended by itself.
func TestLifecycleEnds(t *testing.T) {
	t.Parallel()
	settled := map[job.State]bool{job.Completed: true, job.Dead: true, job.Cancelled: true}
	steps := func(s job.State) (out []job.State) {
		for e := job.OnEnqueue; e <= job.OnRevive; e++ {
			if to, ok := job.Transition(s, e); ok && e != job.OnRevive {
				out = append(out, to)
			}
		}
		return out
	}
	var ends func(s job.State, seen map[job.State]bool) bool
	ends = func(s job.State, seen map[job.State]bool) bool {
		if settled[s] {
			return true
		}
		seen[s] = true
		for _, to := range steps(s) {
			if !seen[to] && ends(to, seen) {
				return true
			}
		}
		return false
	}
	for s := job.State(0); s < job.States; s++ {
		if settled[s] {
			if out := steps(s); len(out) != 0 {
				t.Errorf("%s leads to %v", s.Word(), out)
			}
			if to, ok := job.Transition(s, job.OnRevive); !ok || to != job.Pending {
				t.Errorf("a %s job is revived: %s, %v", s.Word(), to.Word(), ok)
			}
			continue
		}
		for _, to := range steps(s) {
			if !ends(to, map[job.State]bool{}) {
				t.Errorf("a job that went from %q to %q can never settle", s.Word(), to.Word())
			}
		}
	}
}
