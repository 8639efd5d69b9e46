package op_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// Commands of stories about jobs with dependencies.
func init() {
	plain := builders["enqueue"]
	builders["enqueue"] = func(s *story, items []item) op.Op { return s.depending(plain(s, items).(*op.Enqueue), items) }
	builders["watch-job"] = func(s *story, items []item) op.Op {
		i := items[0]
		return &op.WatchJob{
			Meta: s.meta(i), JobId: s.idOf(i.text("of", "")), WaiterId: s.proof(i).Id, WaiterShard: uint32(i.number(s.t, "shard", 0)),
		}
	}
	builders["settle-dependency"] = func(s *story, items []item) op.Op {
		i := items[0]
		outcome, _ := job.ParseState(i.text("outcome", ""))
		return &op.SettleDependency{Meta: s.meta(i), WaiterId: s.proof(i).Id, JobId: s.idOf(i.text("of", "")), Outcome: outcome}
	}
	builders["resolve-dependents"] = func(s *story, items []item) op.Op {
		return &op.ResolveDependents{Meta: s.meta(items[0]), JobIds: s.jobIDs(items[0])}
	}
	moreValid = append(moreValid,
		func(w *world) op.Op { return watching(w.newID("q"), w.newID("q"), 0) },
		func(w *world) op.Op {
			id, waiter := w.newID("q"), w.newID("q")
			return &op.SettleDependency{WaiterId: waiter[:], JobId: id[:], Outcome: job.Completed}
		},
		func(w *world) op.Op {
			id := w.newID("q")
			return &op.ResolveDependents{JobIds: [][]byte{id[:]}}
		})
	prepare["watch-job"] = func(w *world) op.Op {
		o := w.newJobs("q", 1)
		w.apply(o)
		return watching(job.ID(o.Meta.Ids[0]), w.newID("q"), 0)
	}
	prepare["resolve-dependents"] = func(w *world) op.Op {
		l := w.leased("q", 1)[0]
		o := w.newJobs("q", 2)
		dependOn(o, l.Id)
		w.apply(o)
		w.apply(ack(l))
		return &op.ResolveDependents{JobIds: [][]byte{l.Id}}
	}
}

func watching(id, waiter job.ID, shard uint32) *op.WatchJob {
	return &op.WatchJob{JobId: id[:], WaiterId: waiter[:], WaiterShard: shard}
}

// dependOn makes every job of an enqueue depend on other jobs of shard 0.
func dependOn(o *op.Enqueue, ids ...[]byte) {
	for _, nj := range o.Jobs {
		for _, id := range ids {
			nj.DependsOn = append(nj.DependsOn, &op.Dependency{JobId: id})
		}
	}
}

// idOf returns the id of a name, known or not, and none for "".
func (s *story) idOf(name string) []byte {
	if name == "" {
		return nil
	}
	return s.proof(item{words: []string{name}}).Id
}

// depending reads policy= and after=, names of jobs with "@" and their shard if that is not 0.
func (s *story) depending(o *op.Enqueue, items []item) op.Op {
	n := 0
	for _, i := range items {
		for range i.words {
			nj := o.Jobs[n]
			n++
			for name := range strings.SplitSeq(i.text("after", ""), ",") {
				if name == "" {
					continue
				}
				name, shard, _ := strings.Cut(name, "@")
				d := &op.Dependency{JobId: s.idOf(name)}
				if at, err := strconv.ParseUint(shard, 10, 32); err == nil {
					d.Shard = uint32(at)
				}
				nj.DependsOn = append(nj.DependsOn, d)
			}
			switch policy, ok := job.ParseDependencyPolicy(i.text("policy", "fail")); {
			case ok:
				nj.Opt().DependencyPolicy = policy
			default:
				nj.Opt().DependencyPolicy = 9
			}
		}
	}
	return o
}

// printDependents prints the dependencies and the dependents of jobs.
func (s *story) printDependents(names []string) {
	for _, name := range names {
		j, err := s.store.Job(s.jobs[name])
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&s.out, "%s:", name)
		if j != nil {
			fmt.Fprintf(&s.out, " %s, blocked by %d", j.State.Word(), j.BlockedBy)
		}
		if j.GetBlockedBy() > 0 {
			fmt.Fprintf(&s.out, " policy %s", j.Options.GetDependencyPolicy().Word())
		}
		if j.GetDetail().GetHoldReason() != "" {
			fmt.Fprintf(&s.out, ", held: %s", j.Detail.GetHoldReason())
		}
		errs, err := s.store.Errors(s.jobs[name])
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range errs {
			fmt.Fprintf(&s.out, ", %s: %s", strings.ToLower(strings.TrimPrefix(e.Outcome.String(), "OUTCOME_")), e.Error)
		}
		d, err := s.store.Dependents(s.jobs[name])
		if err != nil {
			s.t.Fatal(err)
		}
		if d != nil {
			fmt.Fprintf(&s.out, ", %d wait for it (it knows: %v)", d.Waiters, j.GetHasDependents())
			if d.SettledNs != 0 {
				fmt.Fprintf(&s.out, ", to hear from %s that it is %q", s.moment(max(d.SettledNs, d.RetryNs)), d.Settled.Word())
			}
		}
		s.out.WriteString("\n")
	}
}
