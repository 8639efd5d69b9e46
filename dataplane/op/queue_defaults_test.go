package op_test

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func ptr[T any](v T) *T { return &v }

// saying sets all the fields of a job that a queue may have defaults for.
func saying(nj *op.NewJob) *op.NewJob {
	nj.Priority, nj.Opt().ExpireAfterMs = job.High, 7000
	nj.Retry = &job.Retry{MaxAttempts: 7, Backoff: job.BackoffLinear, BaseDelayMs: 700, MaxDelayMs: 70_000, JitterPercent: 7}
	return nj
}

// A queue's defaults set the fields that a job leaves out and no others: for each field alone, for all, and for
// none.
func TestQueueDefaults(t *testing.T) {
	t.Parallel()
	queues := &state.QueueDefaults{
		Priority: ptr(uint32(job.Critical)), MaxAttempts: ptr(uint32(9)), Backoff: ptr(job.BackoffFixed),
		BaseDelayMs: ptr(int64(900)), MaxDelayMs: ptr(int64(90_000)), JitterPercent: ptr(uint32(9)), ExpireAfterMs: ptr(int64(9000)),
	}
	takes := map[uint32]func(j *job.Job){
		job.DefaultsPriority:    func(j *job.Job) { j.Priority = job.Critical },
		job.DefaultsMaxAttempts: func(j *job.Job) { j.Retry.MaxAttempts = 9 },
		job.DefaultsBackoff:     func(j *job.Job) { j.Retry.Backoff = job.BackoffFixed },
		job.DefaultsBaseDelay:   func(j *job.Job) { j.Retry.BaseDelayMs = 900 },
		job.DefaultsMaxDelay:    func(j *job.Job) { j.Retry.MaxDelayMs = 90_000 },
		job.DefaultsJitter:      func(j *job.Job) { j.Retry.JitterPercent = 9 },
		job.DefaultsExpireAfter: func(j *job.Job) { j.Opt().ExpireAfterMs = 9000 },
	}
	open := []uint32{0, job.AllDefaults}
	for bit := range takes {
		open = append(open, bit)
	}
	w := newWorld(t)
	w.setUp("q", func(q *state.Queue) { q.Defaults = queues })
	w.setUp("silent", func(q *state.Queue) { q.Defaults = &state.QueueDefaults{} })
	for _, bits := range open {
		for _, queue := range []string{"q", "silent", "new"} {
			o := w.newJobs(queue, 1)
			saying(o.Jobs[0]).Defaults = bits
			want := &job.Job{Priority: job.High, Retry: proto.CloneOf(o.Jobs[0].Retry), Options: &job.Options{ExpireAfterMs: 7000}}
			for bit, take := range takes {
				if queue == "q" && bits&bit != 0 {
					take(want)
				}
			}
			w.apply(o)
			got := w.job(o.Meta.Ids[0])
			if got.Priority != want.Priority || !proto.Equal(got.Retry, want.Retry) {
				t.Errorf("open %07b in queue %q: priority %d, retry %v; want %d, %v", bits, queue, got.Priority, got.Retry, want.Priority, want.Retry)
			}
			expire := want.Options.GetExpireAfterMs()
			if got.Options.GetExpireAfterMs() != expire || got.Detail.GetExpireNs() != w.clockNs+expire*int64(time.Millisecond) {
				t.Errorf("open %07b in queue %q: expiry after %d, at %d; want after %d", bits, queue, got.Options.GetExpireAfterMs(), got.Detail.GetExpireNs(), expire)
			}
		}
	}
	w.check()
	// A postponed job takes the priority of the enqueue that postpones it, here the queue's default.
	o := w.newJobs("q", 2)
	for _, nj := range o.Jobs {
		nj.Opt().DebounceKey, nj.Opt().DebounceMs = "d", 1000
	}
	o.Jobs[1].Defaults = job.DefaultsPriority
	w.apply(o)
	if got := w.job(o.Meta.Ids[0]).Priority; got != job.Critical {
		t.Errorf("put off, its priority is %d", got)
	}
}

// If the two delays contradict each other, the one from the weaker source gives way: a built-in default to
// the queue's, and the queue's to the client's.
func TestQueueDefaultsThatContradict(t *testing.T) {
	t.Parallel()
	const both = job.DefaultsBaseDelay | job.DefaultsMaxDelay
	for name, c := range map[string]struct {
		open              uint32
		base, most        int64 // of the job
		queueBase, queueM *int64
		wantBase, wantM   int64
	}{
		"the queue's base above the built-in bound":       {both, 5000, 600_000, ptr(int64(900_000)), nil, 900_000, 900_000},
		"the queue's bound below the built-in base":       {both, 5000, 600_000, nil, ptr(int64(1000)), 1000, 1000},
		"the queue's own two":                             {both, 5000, 600_000, ptr(int64(3000)), ptr(int64(2000)), 3000, 3000},
		"the client's base above the queue's bound":       {job.DefaultsMaxDelay, 50_000, 600_000, nil, ptr(int64(2000)), 50_000, 50_000},
		"the client's bound below the queue's base":       {job.DefaultsBaseDelay, 1000, 1000, ptr(int64(2000)), nil, 1000, 1000},
		"the client's base, the queue's both":             {job.DefaultsMaxDelay, 50_000, 600_000, ptr(int64(1)), ptr(int64(2)), 50_000, 50_000},
		"the client's two, whatever the queue says":       {0, 50, 60, ptr(int64(1)), ptr(int64(2)), 50, 60},
		"the client's two, and a queue that says nothing": {job.DefaultsPriority, 60, 50, nil, nil, 60, 50},
		"no contradiction: the queue's within limit":      {both, 5000, 600_000, ptr(int64(1000)), ptr(int64(1000)), 1000, 1000},
	} {
		w := newWorld(t)
		w.setUp("q", func(q *state.Queue) {
			q.Defaults = &state.QueueDefaults{BaseDelayMs: c.queueBase, MaxDelayMs: c.queueM}
		})
		o := w.newJobs("q", 1)
		o.Jobs[0].Defaults, o.Jobs[0].Retry.BaseDelayMs, o.Jobs[0].Retry.MaxDelayMs = c.open, c.base, c.most
		w.apply(o)
		if r := w.job(o.Meta.Ids[0]).Retry; r.BaseDelayMs != c.wantBase || r.MaxDelayMs != c.wantM {
			t.Errorf("%s: %d ms to %d ms, want %d to %d", name, r.BaseDelayMs, r.MaxDelayMs, c.wantBase, c.wantM)
		}
	}
}

// A client cannot present its job as one that follows from another.
func TestWhatClientsMayNotSay(t *testing.T) {
	t.Parallel()
	id := make([]byte, 16)
	for field, say := range map[string]func(nj *op.NewJob){
		"origin":      func(nj *op.NewJob) { nj.Origin = &job.Origin{} },
		"previous":    func(nj *op.NewJob) { nj.Previous = &job.Blob{} },
		"link":        func(nj *op.NewJob) { nj.Link = &job.ChainLink{} },
		"schedule_id": func(nj *op.NewJob) { nj.Opt().ScheduleId = id },
		"parent_id":   func(nj *op.NewJob) { nj.Opt().ParentId = id[:15] },
		"defaults":    func(nj *op.NewJob) { nj.Defaults = job.AllDefaults + 1 },
		"retry":       func(nj *op.NewJob) { nj.Retry.JitterPercent = job.MaxJitterPercent + 1 },
	} {
		w := &world{t: t, clockNs: epochNs}
		o := w.newJobs("q", 1)
		say(o.Jobs[0])
		err := o.Validate()
		if got := problemsOf(err)[0].Field; api.CodeOf(err) != api.ValidationError || got != "jobs[0]."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
	w := &world{t: t, clockNs: epochNs}
	o := w.newJobs("q", 1)
	o.Jobs[0].Defaults, o.Jobs[0].Opt().ParentId, o.Jobs[0].Retry.JitterPercent = job.AllDefaults, id, job.MaxJitterPercent
	if err := o.Validate(); err != nil {
		t.Errorf("at the bounds: %v", err)
	}
}

// An enqueue that found existing jobs in place of its own changes nothing when it is repeated, and answers as
// before. One that might postpone a job is not repeated.
func TestEnqueueRepeatsWhatItFound(t *testing.T) {
	t.Parallel()
	prepare := func(w *world, made bool) *op.Enqueue {
		before := w.newJobs("q", 1)
		before.Jobs[0].Opt().UniqueKey, before.Jobs[0].Opt().UniquePeriodMs = "k", job.DefaultUniquePeriod.Milliseconds()
		w.apply(before)
		o := w.newJobs("q", 3)
		for i, nj := range o.Jobs {
			nj.Opt().UniqueKey, nj.Opt().UniquePeriodMs = "k", job.DefaultUniquePeriod.Milliseconds()
			if made && i > 0 {
				nj.Opt().UniqueKey = "l"
			}
		}
		return o
	}
	for name, apply := range manners {
		for _, made := range []bool{true, false} {
			once, twice := newWorld(t), newWorld(t)
			first := apply(once, prepare(once, made), 1)
			o := prepare(twice, made)
			if !op.NewCodec().Repeats(op.Proposal(o)) {
				t.Error("the codec says that it does not repeat")
			}
			second := apply(twice, o, 2)
			if !proto.Equal(first.(*op.EnqueueResult), second.(*op.EnqueueResult)) {
				t.Errorf("%s, made %v: answered %v first and %v then", name, made, first, second)
			}
			if !bytes.Equal(settled(t, once), settled(t, twice)) {
				t.Errorf("%s, made %v: the repeat changed the state", name, made)
			}
		}
	}
	w := newWorld(t)
	o := w.newJobs("q", 2)
	o.Jobs[1].Opt().DebounceKey, o.Jobs[1].Opt().DebounceMs = "k", 1
	if op.NewCodec().Repeats(op.Proposal(o)) {
		t.Error("an enqueue that may put a job off would be repeated")
	}
	o.Meta.Idempotency = idempotent("", "k", "").Idempotency
	if !op.NewCodec().Repeats(op.Proposal(o)) {
		t.Error("one with an idempotency key would not be repeated")
	}
}
