package op_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// These are the story commands for actions on jobs by people and by time.
func init() {
	for name, build := range map[string]func(s *story, i item) op.Op{
		"bring":  (*story).bring,
		"cancel": func(s *story, i item) op.Op { return &op.CancelJobs{Meta: s.meta(i), JobIds: s.jobIDs(i)} },
		"retry":  func(s *story, i item) op.Op { return &op.RetryJobs{Meta: s.meta(i), JobIds: s.jobIDs(i)} },
		"requeue": func(s *story, i item) op.Op {
			return &op.RetryJobs{Meta: s.meta(i), JobIds: s.jobIDs(i), Requeue: true}
		},
		"hold": func(s *story, i item) op.Op {
			return &op.HoldJobs{Meta: s.meta(i), JobIds: s.jobIDs(i), Reason: repeated(i.text("reason", ""))}
		},
		"approve": func(s *story, i item) op.Op { return &op.ReleaseJobs{Meta: s.meta(i), JobIds: s.jobIDs(i)} },
		"reject": func(s *story, i item) op.Op {
			return &op.RejectJobs{Meta: s.meta(i), JobIds: s.jobIDs(i), Reason: repeated(i.text("reason", ""))}
		},
		"delete":         func(s *story, i item) op.Op { return &op.DeleteJobs{Meta: s.meta(i), JobIds: s.jobIDs(i)} },
		"expire-jobs":    func(s *story, i item) op.Op { return &op.ExpireJobs{JobIds: s.jobIDs(i)} },
		"release-unique": func(s *story, i item) op.Op { return &op.ReleaseUnique{JobIds: s.jobIDs(i)} },
		"purge-jobs":     func(s *story, i item) op.Op { return &op.PurgeJobs{JobIds: s.jobIDs(i)} },
	} {
		builders[name] = func(s *story, items []item) op.Op { return build(s, items[0]) }
	}
	for _, make := range []func(ids [][]byte) op.Op{
		func(ids [][]byte) op.Op { return &op.CancelJobs{JobIds: ids} },
		func(ids [][]byte) op.Op { return &op.RetryJobs{JobIds: ids} },
		func(ids [][]byte) op.Op { return &op.HoldJobs{JobIds: ids} },
		func(ids [][]byte) op.Op { return &op.ReleaseJobs{JobIds: ids} },
		func(ids [][]byte) op.Op { return &op.RejectJobs{JobIds: ids} },
		func(ids [][]byte) op.Op { return &op.DeleteJobs{JobIds: ids} },
		func(ids [][]byte) op.Op { return &op.ExpireJobs{JobIds: ids} },
		func(ids [][]byte) op.Op { return &op.ReleaseUnique{JobIds: ids} },
		func(ids [][]byte) op.Op { return &op.PurgeJobs{JobIds: ids} },
	} {
		moreValid = append(moreValid, func(w *world) op.Op {
			id := w.newID("q")
			return make([][]byte{id[:]})
		})
	}
	fail := prepare["fail"]
	prepare["fail"] = func(w *world) op.Op {
		o := fail(w).(*op.Fail)
		o.Items[3].Reason = op.FailReason_FAIL_REASON_SHUTDOWN
		w.apply(&op.CancelJobs{JobIds: [][]byte{o.Items[0].Proof.Id}})
		return o
	}
	prepare["cancel-jobs"] = func(w *world) op.Op {
		return &op.CancelJobs{JobIds: [][]byte{w.leased("q", 1)[0].Id, w.bring(job.Held, nil)}}
	}
	prepare["delete-jobs"] = func(w *world) op.Op {
		return &op.DeleteJobs{JobIds: [][]byte{w.leased("q", 1)[0].Id, w.bring(job.Held, nil), w.bring(job.Dead, nil)}}
	}
	over := func(j *job.Job) {
		j.Details().ExpireNs, j.Opt().UniqueKey, j.Details().UniqueExpiresNs, j.SettledNs = epochNs, "k", epochNs, epochNs
	}
	prepare["expire-jobs"] = func(w *world) op.Op { return &op.ExpireJobs{JobIds: [][]byte{w.bring(job.Retrying, over)}} }
	prepare["release-unique"] = func(w *world) op.Op {
		return &op.ReleaseUnique{JobIds: [][]byte{w.bring(job.Pending, over)}}
	}
	prepare["purge-jobs"] = func(w *world) op.Op { return &op.PurgeJobs{JobIds: [][]byte{w.bring(job.Completed, over)}} }
}

// idsOf returns the ids of an op's jobs.
func idsOf(o op.Op) [][]byte { return o.(interface{ GetJobIds() [][]byte }).GetJobIds() }

func doneWord(d *op.JobDone) string {
	switch {
	case d.Refusal.GetCode() != "":
		return outcome(d.Refusal)
	case d.State == 0:
		return "gone"
	case d.Pending:
		return d.State.Word() + ", pending"
	}
	return d.State.Word()
}

// bring puts a job into the store in a state that would take many ops to get it
// into.
func (w *world) bring(st job.State, change func(j *job.Job)) []byte {
	w.t.Helper()
	o := w.arriving("q")
	o.Job.State = st
	if change != nil {
		change(o.Job)
	}
	w.apply(o)
	return o.Job.Id
}

// bring reads an arrival and fields that no other command can give a job.
func (s *story) bring(i item) op.Op {
	o := s.arrival(i)
	j := o.Job
	at := func(name string) int64 {
		if v, ok := i.settings[name]; ok {
			return epochNs + i.duration(s.t, v).Nanoseconds()
		}
		return 0
	}
	j.Details().ExpireNs, j.Opt().ExpireAfterMs = at("expires"), i.millis(s.t, "expire-after", 0)
	j.Opt().UniqueKey, j.Details().UniqueExpiresNs, j.Opt().UniqueWholePeriod = i.text("unique", ""), at("unique-until"), i.has("whole-period")
	j.SettledNs, j.CompletedNs = at("settled"), at("completed")
	j.BlockedBy, j.HasDependents = uint32(i.number(s.t, "blocked", 0)), i.has("has-dependents")
	if i.has("ended") {
		j.Batch = &job.Membership{BatchId: make([]byte, 16), Counted: true}
		j.Chain = &job.ChainLink{ChainId: make([]byte, 16), Step: 1, Ended: true}
	}
	return o
}

// printLife prints the due times of a job and the outcomes of its attempts, which printJob leaves out.
func (s *story) printLife(name string) {
	s.snapshot(func(v *state.Snapshot) {
		j, err := v.Job(s.jobs[name])
		if err != nil {
			s.t.Fatal(err)
		}
		if j == nil {
			fmt.Fprintf(&s.out, "life of %s: over\n", name)
			return
		}
		fmt.Fprintf(&s.out, "life of %s: %s, attempt %d from %d, cancelled %s expires %s settled %s key free %s, held %q, blocked by %d",
			name, j.State.Word(), j.Attempt, j.AttemptBase, s.moment(j.Detail.GetCancelledNs()), s.moment(j.Detail.GetExpireNs()), s.moment(j.SettledNs), s.moment(j.Detail.GetUniqueExpiresNs()), j.Detail.GetHoldReason(), j.BlockedBy)
		for _, flag := range []struct {
			set  bool
			word string
		}{{j.Cancelling, " cancelling"}, {j.Doomed, " doomed"}, {j.LeaseExpired, " lease-expired"}} {
			if flag.set {
				s.out.WriteString(flag.word)
			}
		}
		s.out.WriteString("\n")
		errs, err := v.Errors(s.jobs[name])
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range errs {
			fmt.Fprintf(&s.out, "  attempt %d of %q from %s to %s: %s %q\n", e.Attempt, e.WorkerId, s.moment(e.StartedNs), s.moment(e.CreatedNs), e.Outcome.Word(), e.Error)
		}
	})
}

// The ids of a person's op are bounded like those of a duty, and so are reasons.
func TestJobActionBounds(t *testing.T) {
	t.Parallel()
	check := func(what string, o func() op.Op, set func(o op.Op, n int), at int) {
		t.Helper()
		within, beyond := o(), o()
		set(within, at)
		set(beyond, at+1)
		if err := within.Validate(); err != nil {
			t.Errorf("%s at %d: %v", what, at, err)
		}
		if err := beyond.Validate(); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%s beyond %d: %v", what, at, err)
		}
	}
	for _, name := range []string{"cancel-jobs", "retry-jobs", "hold-jobs", "release-jobs", "reject-jobs", "delete-jobs", "expire-jobs", "release-unique", "purge-jobs"} {
		fresh := func() op.Op { return valid(t)[name] }
		check(name, fresh, func(o op.Op, n int) { setIDs(o, ids(n, 16)) }, job.MaxDutyItems)
		for what, bad := range map[string][][]byte{"no job": nil, "a short id": ids(1, 15)} {
			o := fresh()
			setIDs(o, bad)
			if err := o.Validate(); api.CodeOf(err) != api.ValidationError || problemsOf(err)[0].Field[:7] != "job_ids" {
				t.Errorf("%s of %s: %v", name, what, err)
			}
		}
	}
	check("a hold's reason", func() op.Op { return valid(t)["hold-jobs"] }, func(o op.Op, n int) { o.(*op.HoldJobs).Reason = long(n) }, job.MaxHoldReason)
	check("a rejection's reason", func() op.Op { return valid(t)["reject-jobs"] }, func(o op.Op, n int) { o.(*op.RejectJobs).Reason = long(n) }, job.MaxHoldReason)
	if err := (&op.HoldJobs{JobIds: ids(1, 16), Reason: "\xff"}).Validate(); api.CodeOf(err) != api.ValidationError {
		t.Errorf("a reason that is no text: %v", err)
	}
	check("jitter", func() op.Op { return valid(t)["enqueue"] }, func(o op.Op, n int) { o.(*op.Enqueue).Jobs[0].Retry.JitterPercent = uint32(n) }, 100)
}

func setIDs(o op.Op, list [][]byte) {
	m := o.ProtoReflect()
	field := m.Descriptor().Fields().ByName("job_ids")
	m.Clear(field)
	for _, id := range list {
		m.Mutable(field).List().Append(protoreflect.ValueOfBytes(id))
	}
}

// A fetch ends at most job.MaxDutyItems expired jobs, and the next fetch continues, so that a backlog that
// expired delays neither the log nor the queue.
func TestAFetchEndsABoundedBacklog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var backlog []op.Op
	for range job.MaxDutyItems + 1 {
		o := w.arriving("q")
		o.Job.Details().ExpireNs = epochNs
		backlog = append(backlog, o)
	}
	w.apply(append(backlog, w.newJobs("q", 1))...)
	if got := one[*op.FetchResult](w, w.fetch("q", 1)); len(got.Jobs) != 0 {
		t.Errorf("the first fetch got %d jobs", len(got.Jobs))
	}
	if left := w.store.Fetchable("q"); left != 2 {
		t.Errorf("the first fetch left %d jobs, want 2", left)
	}
	if got := one[*op.FetchResult](w, w.fetch("q", 1)); len(got.Jobs) != 1 {
		t.Errorf("the second fetch got %d jobs", len(got.Jobs))
	}
	w.check()
	w.checkReplica()
}

// inState returns a job in a state, and the proof of its lease if it has one.
func (w *world) inState(st job.State) (id []byte, proof *op.LeaseProof) {
	w.t.Helper()
	due := func(j *job.Job) {
		j.Details().ExpireNs = w.clockNs + int64(time.Minute)
		j.ScheduledNs = w.clockNs + int64(time.Minute)
	}
	switch st {
	case job.Active:
		id = w.bring(job.Pending, due)
		leased := one[*op.FetchResult](w, w.fetch("q", 1)).Jobs[0]
		return id, &op.LeaseProof{Id: id, Token: leased.LeaseToken}
	case job.Cancelled:
		id = w.bring(job.Pending, due)
		w.apply(&op.CancelJobs{JobIds: [][]byte{id}})
	default:
		id = w.bring(st, due)
	}
	return id, &op.LeaseProof{Id: id}
}

// Every op on a job follows the lifecycle's table and nothing else: in all other states the job stays as it is,
// and the op is refused.
func TestTheLifecycleIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		on []job.Event // that the op brings about
		do func(id []byte, proof *op.LeaseProof) op.Op
	}{
		"ack":  {[]job.Event{job.OnAck}, func(_ []byte, p *op.LeaseProof) op.Op { return &op.Ack{Items: []*op.AckItem{{Proof: p}}} }},
		"fail": {[]job.Event{job.OnRetry, job.OnExhaust}, func(_ []byte, p *op.LeaseProof) op.Op { return &op.Fail{Items: []*op.FailItem{{Proof: p}}} }},
		"return": {[]job.Event{job.OnReturn}, func(_ []byte, p *op.LeaseProof) op.Op {
			return &op.Fail{Items: []*op.FailItem{{Proof: p, Reason: op.FailReason_FAIL_REASON_UNDELIVERED}}}
		}},
		"stop": {[]job.Event{job.OnReturn}, func(_ []byte, p *op.LeaseProof) op.Op {
			return &op.Fail{Items: []*op.FailItem{{Proof: p, Reason: op.FailReason_FAIL_REASON_SHUTDOWN}}}
		}},
		"renew":   {[]job.Event{job.OnRenew}, func(_ []byte, p *op.LeaseProof) op.Op { return &op.Heartbeat{Items: []*op.HeartbeatItem{{Proof: p}}} }},
		"promote": {[]job.Event{job.OnPromote}, func(id []byte, _ *op.LeaseProof) op.Op { return &op.Promote{JobIds: [][]byte{id}} }},
		"reclaim": {[]job.Event{job.OnReclaim, job.OnReclaimLast}, func(id []byte, _ *op.LeaseProof) op.Op { return &op.Reclaim{JobIds: [][]byte{id}} }},
		"cancel":  {[]job.Event{job.OnCancel, job.OnStop}, func(id []byte, _ *op.LeaseProof) op.Op { return &op.CancelJobs{JobIds: [][]byte{id}} }},
		"hold":    {[]job.Event{job.OnHold}, func(id []byte, _ *op.LeaseProof) op.Op { return &op.HoldJobs{JobIds: [][]byte{id}} }},
		"approve": {[]job.Event{job.OnApprove}, func(id []byte, _ *op.LeaseProof) op.Op { return &op.ReleaseJobs{JobIds: [][]byte{id}} }},
		"reject":  {[]job.Event{job.OnReject}, func(id []byte, _ *op.LeaseProof) op.Op { return &op.RejectJobs{JobIds: [][]byte{id}} }},
		"expire":  {[]job.Event{job.OnExpire}, func(id []byte, _ *op.LeaseProof) op.Op { return &op.ExpireJobs{JobIds: [][]byte{id}} }},
		"retry":   {[]job.Event{job.OnRevive}, func(id []byte, _ *op.LeaseProof) op.Op { return &op.RetryJobs{JobIds: [][]byte{id}} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for st := job.Scheduled; st < job.States; st++ {
				id, proof := w.inState(st)
				w.clockNs += int64(2 * time.Minute) // everything is due
				before := w.stateOf(id)
				result := w.apply(c.do(id, proof))[0]
				possible := slices.ContainsFunc(c.on, func(e job.Event) bool { _, ok := job.Transition(st, e); return ok })
				changed := w.stateOf(id) != before
				// Some ops succeed if the job already is as asked, because a repeat counts as done.
				already := name == "cancel" && st == job.Cancelled || name == "ack" && st == job.Completed
				if said := refused(result); !possible && (changed || !said && !already) || possible && said {
					t.Errorf("%s of a %s job: possible %v, changed %v, answered %v", name, st.Word(), possible, changed, result)
				}
			}
			w.check()
		})
	}
}

// stateOf returns a job as text.
func (w *world) stateOf(id []byte) string {
	w.t.Helper()
	j, err := w.store.Job(job.ID(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return j.String()
}

// refused says whether an op on one job did nothing to it.
func refused(result any) bool {
	switch r := result.(type) {
	case *op.AckResult:
		return r.Items[0].GetCode() != ""
	case *op.HeartbeatResult:
		return r.Items[0].GetCode() != ""
	case *op.FailResult:
		return r.Items[0].GetRefusal().GetCode() != ""
	case *op.JobsResult:
		return r.Items[0].GetRefusal().GetCode() != ""
	}
	return strings.HasSuffix(fmt.Sprint(result), ":0") || fmt.Sprint(result) == ""
}
