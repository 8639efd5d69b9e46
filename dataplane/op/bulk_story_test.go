package op_test

import (
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	builders["start-bulk"] = (*story).startBulk
	builders["open-bulk"] = (*story).openBulk
	builders["run-bulk"] = (*story).runBulk
	builders["count-bulk"] = (*story).countBulk
	builders["cancel-bulk"] = func(s *story, items []item) op.Op {
		return &op.CancelBulk{Meta: s.meta(items[0]), BulkId: s.jobIDs(items[0])[0], Part: items[0].has("part")}
	}
	builders["purge-bulks"] = func(s *story, items []item) op.Op {
		return &op.PurgeBulks{Meta: s.meta(items[0]), BulkIds: s.jobIDs(items[0])}
	}

	moreValid = append(moreValid,
		func(w *world) op.Op { return w.bulk(state.BulkAction_BULK_ACTION_RETRY, w.newID("q")) },
		func(w *world) op.Op {
			id := w.newID("")
			return &op.OpenBulk{
				Part: &state.BulkPart{Id: id[:], Action: state.BulkAction_BULK_ACTION_DELETE},
				Work: &state.BulkWork{Filter: []byte(`{"queue":"q"}`)},
			}
		},
		func(w *world) op.Op {
			id := w.newID("")
			return &op.RunBulk{BulkId: id[:], JobIds: [][]byte{id[:]}, After: []uint64{1}, To: 1}
		},
		func(w *world) op.Op { id := w.newID(""); return &op.CountBulk{BulkId: id[:]} },
		func(w *world) op.Op { id := w.newID(""); return &op.CancelBulk{BulkId: id[:]} },
		func(w *world) op.Op { id := w.newID(""); return &op.PurgeBulks{BulkIds: [][]byte{id[:]}} },
	)
	prepare["start-bulk"] = func(w *world) op.Op {
		o := w.newJobs("q", 2)
		w.apply(o)
		return w.bulk(state.BulkAction_BULK_ACTION_CANCEL, job.ID(o.Meta.Ids[0]))
	}
	prepare["run-bulk"] = func(w *world) op.Op {
		o := w.newJobs("q", 3)
		w.apply(o)
		bulk := w.bulk(state.BulkAction_BULK_ACTION_HOLD, job.ID(o.Meta.Ids[0]), job.ID(o.Meta.Ids[1]), job.ID(o.Meta.Ids[2]))
		w.apply(bulk)
		return &op.RunBulk{BulkId: bulk.Meta.Ids[0], JobIds: o.Meta.Ids[:2], After: []uint64{1, 2}, To: 2}
	}
	prepare["cancel-bulk"] = func(w *world) op.Op {
		bulk := w.bulk(state.BulkAction_BULK_ACTION_HOLD, w.newID("q"))
		w.apply(bulk)
		return &op.CancelBulk{BulkId: bulk.Meta.Ids[0]}
	}
	prepare["purge-bulks"] = func(w *world) op.Op {
		o := prepare["cancel-bulk"](w).(*op.CancelBulk)
		w.apply(o)
		w.clockNs += int64(job.BulkKept)
		return &op.PurgeBulks{BulkIds: [][]byte{o.BulkId}}
	}
}

// bulk builds an operation on named jobs of this shard.
func (w *world) bulk(action state.BulkAction, jobs ...job.ID) *op.StartBulk {
	id := w.newID("")
	o := &op.StartBulk{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Action: action, EstimatedTotal: uint64(len(jobs)), Shares: []*op.BulkStart{{}}}
	for _, j := range jobs {
		o.Shares[0].JobIds = append(o.Shares[0].JobIds, j[:])
	}
	if action == state.BulkAction_BULK_ACTION_MOVE {
		o.Queue = "elsewhere"
	}
	return o
}

// startBulk reads an action and names of jobs on this shard, or filter= with in= (a queue) and states=. as=
// names the operation, on= gives the shards, to= and shard= the queue of a move, and priority= and scope= the
// rest.
func (s *story) startBulk(items []item) op.Op {
	i := items[0]
	meta := s.meta(i)
	meta.Ids = s.jobIDs(item{words: []string{i.text("name", "bulk")}})
	o := &op.StartBulk{
		Meta: meta, Queue: i.text("to", ""), Shard: uint32(i.number(s.t, "shard", 0)),
		Priority: uint32(i.number(s.t, "priority", 0)), EstimatedTotal: i.number(s.t, "about", 0),
		Filter: []byte(i.text("filter", "")), InQueue: i.text("in", ""),
	}
	o.Action, _ = state.ParseBulkAction(i.words[0])
	if scope := i.text("scope", ""); scope != "" {
		o.Scope = strings.Split(scope, ",")
	}
	for word := range strings.SplitSeq(i.text("states", ""), ",") {
		if st, ok := job.ParseState(word); ok {
			o.InStates = append(o.InStates, st)
		}
	}
	for on := range strings.SplitSeq(i.text("on", "0"), ",") {
		share := &op.BulkStart{}
		fmt.Sscan(on, &share.Shard)
		o.Shares = append(o.Shares, share)
	}
	o.Shares[0].JobIds = s.jobIDs(item{words: i.words[1:]})
	return o
}

// openBulk builds a filter's part as the home shard sends it.
func (s *story) openBulk(items []item) op.Op {
	i := items[0]
	o := &op.OpenBulk{
		Part: &state.BulkPart{Id: s.jobIDs(item{words: i.words[1:]})[0]},
		Work: &state.BulkWork{Filter: []byte("{}")},
	}
	o.Part.Action, _ = state.ParseBulkAction(i.words[0])
	return o
}

// runBulk reads the operation's name, then names of jobs with the positions after
// them (a:2), from=, to= and failure=.
func (s *story) runBulk(items []item) op.Op {
	i := items[0]
	o := &op.RunBulk{
		Meta: s.meta(i), BulkId: s.jobIDs(item{words: i.words[:1]})[0],
		From: i.number(s.t, "from", 0), To: i.number(s.t, "to", 0), Failure: i.text("failure", ""),
	}
	for _, word := range i.words[1:] {
		name, after, _ := strings.Cut(word, ":")
		n := uint64(0)
		fmt.Sscan(after, &n)
		o.JobIds, o.After = append(o.JobIds, s.jobIDs(item{words: []string{name}})[0]), append(o.After, n)
	}
	return o
}

func (s *story) countBulk(items []item) op.Op {
	i := items[0]
	return &op.CountBulk{
		BulkId: s.jobIDs(item{words: i.words[:1]})[0], Shard: uint32(i.number(s.t, "shard", 0)), Ended: i.has("ended"),
		Counts: &state.BulkCounts{Affected: i.number(s.t, "affected", 0), Errors: i.number(s.t, "errors", 0)},
	}
}

// bulkAnswer prints the answer of a bulk op, "" for any other op.
func bulkAnswer(result any) string {
	switch r := result.(type) {
	case *op.RunBulkResult:
		return fmt.Sprintf("applied %v, waits %v", r.Applied, r.Waits)
	case *op.CancelBulkResult:
		return fmt.Sprintf("ended %v", r.Ended)
	case *op.PurgeBulksResult:
		return fmt.Sprintf("purged %d", r.Purged)
	}
	return ""
}

// printBulks prints the operations, and the parts of this shard.
func (s *story) printBulks() {
	s.snapshot(func(v *state.Snapshot) {
		for b, err := range v.Bulks() {
			if err != nil {
				s.t.Fatal(err)
			}
			fmt.Fprintf(&s.out, "%s: %s by %q, about %d, affected %d, errors %d, begun %v, finished %s, cancelled %v, forgotten %s %s\n", s.name(b.Id), b.Action.Word(),
				b.Principal, b.EstimatedTotal, b.Counts().Affected, b.Counts().Errors, b.Begun(), s.moment(b.FinishedNs), b.Cancelled, s.moment(b.PurgeNs), b.Error)
			for _, share := range b.Shares {
				fmt.Fprintf(&s.out, "  shard %d: affected %d, errors %d, ended %v\n", share.Shard, share.Counts.GetAffected(), share.Counts.GetErrors(), share.Ended)
			}
			for _, f := range b.Failures {
				fmt.Fprintf(&s.out, "  %s %s: %s\n", s.name(f.JobId), f.Code, f.Error)
			}
		}
		for p, err := range v.BulkParts() {
			if err != nil {
				s.t.Fatal(err)
			}
			fmt.Fprintf(&s.out, "part of %s: at %d of %d, affected %d, errors %d\n", s.name(p.Id), p.Next, p.End, p.Counts.GetAffected(), p.Counts.GetErrors())
		}
	})
}
