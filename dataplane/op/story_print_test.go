package op_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// name returns the story's name of a job. Jobs that an entry creates are "born1", "born2"... in the order in
// which the story sees them.
func (s *story) name(id []byte) string {
	if name, ok := s.names[job.ID(id)]; ok {
		return name
	}
	for n := 1; ; n++ {
		name := fmt.Sprint("born", n)
		if _, taken := s.jobs[name]; !taken {
			s.jobs[name], s.names[job.ID(id)] = job.ID(id), name
			return name
		}
	}
}

// describe prints a result of an op.
func (s *story) describe(o op.Op, result any) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch r := result.(type) {
	case *op.EnqueueResult:
		for _, j := range r.Jobs {
			add("%s %s%s", s.name(j.Id), j.State.Word(), foundWord(j))
		}
	case *op.FetchResult:
		for _, l := range r.Jobs {
			add("%s attempt %d until %s token %s", s.name(l.Id), l.Attempt, s.moment(l.ExpiresNs), s.nameToken(l))
		}
	case *op.AckResult:
		for i, refusal := range r.Items {
			add("%s %s", s.name(o.(*op.Ack).Items[i].Proof.Id), outcome(refusal))
		}
	case *op.HeartbeatResult:
		for i, refusal := range r.Items {
			word := outcome(refusal)
			if slices.Contains(r.Cancel, uint32(i)) {
				word += ", cancel"
			}
			add("%s %s%s", s.name(o.(*op.Heartbeat).Items[i].Proof.Id), word, overBudget(r, i))
		}
	case *op.FailResult:
		for i, f := range r.Items {
			name := s.name(o.(*op.Fail).Items[i].Proof.Id)
			if f.Refusal.GetCode() != "" {
				add("%s %s", name, outcome(f.Refusal))
				continue
			}
			add("%s %s attempt %d next %s left %d%s", name, f.State.Word(), f.Attempt, s.moment(f.NextAttemptNs), f.AttemptsRemaining, aside(f.Refusal))
		}
	case *op.MoveJobsResult:
		for i, refusal := range r.Items {
			add("%s %s", s.name(o.(*op.MoveJobs).JobIds[i]), outcome(refusal))
		}
	case *op.JobsResult:
		for i, done := range r.Items {
			add("%s %s", s.name(idsOf(o)[i]), doneWord(done))
		}
	case *op.ExpireJobsResult:
		add("%d", r.Expired)
	case *op.ReleaseUniqueResult:
		add("%d", r.Released)
	case *op.PurgeJobsResult:
		add("%d", r.Purged)
	case *op.DeliverResult:
		add("last %d", r.LastSeq)
	case *op.PromoteResult:
		add("%d", r.Promoted)
	case *op.ReclaimResult:
		add("%d", r.Reclaimed)
	case *op.OpenGateResult:
		add("%d", r.Opened)
	case *op.PurgeIdempotencyResult:
		add("%d", r.Purged)
	case *op.ResolveDependentsResult:
		add("notified %d", r.Notified)
	case *op.RunSchedulesResult:
		for _, id := range r.JobIds {
			add("%s", s.nameRun(id))
		}
	case *op.ReplayJobResult:
		add("%s", s.name(r.Id))
	case *op.ScoreJobResult:
		add("ok")
	case *op.TurnBudgetsResult:
		add("%d", r.Turned)
	case *op.CreateKeyResult:
		add("%s created %s", r.Key.Id, s.moment(r.Key.CreatedNs))
	default:
		add("%s", queueAnswer(r))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

// nameToken names a job's tokens "<job>1", "<job>2"... in the order they came.
func (s *story) nameToken(l *op.Leased) string {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s%d", s.name(l.Id), n)
		known, ok := s.tokens[name]
		if ok && string(known) == string(l.LeaseToken) {
			return name
		}
		if !ok {
			s.tokens[name] = l.LeaseToken
			return name
		}
	}
}

// aside says that the usage report of an item is kept aside.
func aside(r *op.Refusal) string {
	if r.GetUsageRejected() == "" {
		return ""
	}
	return ", usage aside: " + r.UsageRejected
}

func outcome(r *op.Refusal) string {
	if r.GetCode() == "" {
		return "ok" + aside(r)
	}
	return r.Code + " (" + r.Message + ")"
}

// printChanges prints the entry's events and the queues that it changed.
func (s *story) printChanges() {
	s.snapshot(func(v *state.Snapshot) {
		s.printEvents(v)
		s.printQueues(v)
	})
}

func (s *story) printEvents(v *state.Snapshot) {
	var events []string
	for fed, err := range v.Feed(max(s.seen, v.Head().FeedFirstSeq)) {
		if err != nil {
			s.t.Fatal(err)
		}
		for i, e := range fed.Entry.Events {
			if fed.FirstSeq+uint64(i) < s.seen {
				continue
			}
			word := strings.ToLower(strings.TrimPrefix(e.Type.String(), "EVENT_"))
			if len(e.JobId) > 0 {
				events = append(events, fmt.Sprintf("%s %s#%d", word, s.name(e.JobId), e.Attempt))
			} else {
				events = append(events, word+" "+e.Queue)
			}
		}
	}
	s.seen = v.Head().FeedNextSeq
	if len(events) > 0 {
		fmt.Fprintf(&s.out, "feed: %s\n", strings.Join(events, ", "))
	}
}

func (s *story) printQueues(v *state.Snapshot) {
	for q, err := range v.Queues() {
		if err != nil {
			s.t.Fatal(err)
		}
		var b strings.Builder
		for st, n := range q.InState {
			if n > 0 {
				fmt.Fprintf(&b, " %s %d", job.State(st).Word(), n)
			}
		}
		if q.Paused {
			b.WriteString(" paused")
		}
		if q.MaxConcurrency > 0 {
			fmt.Fprintf(&b, " concurrency %d", q.MaxConcurrency)
		}
		printQueueSettings(&b, q)
		fmt.Fprintf(&b, " (enqueued %d completed %d failed %d dead %d, fetchable %d)", q.Enqueued, q.Completed, q.Failed, q.Dead, s.store.Fetchable(q.Name))
		if line := b.String(); s.queues[q.Name] != line {
			s.queues[q.Name] = line
			fmt.Fprintf(&s.out, "queue %s:%s\n", q.Name, line)
		}
	}
}

// printJob prints the whole of a job.
func (s *story) printJob(name string) {
	id := s.jobs[name]
	s.snapshot(func(v *state.Snapshot) {
		j, err := v.Job(id)
		if err != nil {
			s.t.Fatal(err)
		}
		if j == nil {
			fmt.Fprintf(&s.out, "job %s: none\n", name)
			return
		}
		fmt.Fprintf(&s.out, "job %s: %s in %s, priority %d, attempt %d of %d, created %s due %s started %s completed %s failed %s\n",
			name, j.State.Word(), j.Queue, j.Priority, j.Attempt, j.Retry.MaxAttempts,
			s.moment(j.CreatedNs), s.moment(j.ScheduledNs), s.moment(j.StartedNs), s.moment(j.CompletedNs), s.moment(j.FailedNs))
		s.printTerms(j)
		s.printAgent(v, j)
		if l := j.Lease; l != nil {
			fmt.Fprintf(&s.out, "  lease of %s until %s, length %d ms, some expired: %v\n", l.WorkerId, s.moment(l.ExpiresNs), l.LengthMs, j.LeaseExpired)
		}
		if u := j.Usage; u != nil {
			fmt.Fprintf(&s.out, "  usage in %d out %d cost %d model %q provider %q\n", u.InputTokens, u.OutputTokens, u.CostNanoUsd, u.Model, u.Provider)
		}
		for _, pair := range append(j.Tags, j.Headers...) {
			fmt.Fprintf(&s.out, "  %s: %s\n", pair.Name, pair.Value)
		}
		s.printChain(v, j)
		for kind, word := range [job.BlobKinds]string{"payload", "result", "checkpoint", "progress", "", "previous"} {
			if word == "" {
				continue
			}
			b, err := v.Blob(id, job.BlobKind(kind))
			if err != nil {
				s.t.Fatal(err)
			}
			if b != nil {
				fmt.Fprintf(&s.out, "  %s %s\n", word, b.Data)
			}
		}
		errs, err := v.Errors(id)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range errs {
			fmt.Fprintf(&s.out, "  error of attempt %d at %s: %q %q\n", e.Attempt, s.moment(e.CreatedNs), e.Error, e.Backtrace)
		}
	})
}

func (s *story) printHead() {
	h := s.store.Head()
	fmt.Fprintf(&s.out, "head: index %d clock %s term since %s next number %d feed [%d,%d) keys %d secured %v remembered %d queues %d\n",
		h.Index, s.moment(h.ClockNs), s.moment(h.TermStartedNs), h.NextJobNumber, h.FeedFirstSeq, h.FeedNextSeq, h.KeyRecords, h.Secured, h.IdempotencyRecords, h.QueueRecords)
}

// printUsage prints the usage rows there are.
func (s *story) printUsage() {
	s.snapshot(func(v *state.Snapshot) {
		fmt.Fprintf(&s.out, "usage [%d,%d)\n", v.Head().UsageFirstSeq, v.Head().UsageNextSeq)
		for row, err := range v.Usage(0) {
			if err != nil {
				s.t.Fatal(err)
			}
			r, u := row.Record, row.Record.Report
			if r.Meters != nil {
				fmt.Fprintf(&s.out, "  %d at %s: ", row.Seq, s.moment(r.ClockNs))
				s.printMeters(r.Meters)
				continue
			}
			fmt.Fprintf(&s.out, "  %d %s#%d in %s at %s: in %d out %d created %d read %d cost %d model %q provider %q\n", row.Seq, s.name(r.JobId), r.Attempt, r.Queue,
				s.moment(r.ClockNs), u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens, u.CostNanoUsd, u.Model, u.Provider)
		}
	})
}
