package op_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// Commands of stories about agents' jobs.
func init() {
	builders["replay"] = (*story).replay
	builders["score"] = (*story).score
	moreValid = append(moreValid,
		func(w *world) op.Op {
			id, made := w.newID("q"), w.newID("q")
			return &op.ReplayJob{Meta: &op.Meta{Ids: [][]byte{made[:]}}, JobId: id[:], From: 1}
		},
		func(w *world) op.Op {
			id := w.newID("q")
			return &op.ScoreJob{JobId: id[:], Score: &job.Score{Dimension: "quality", Value: 0.5}}
		},
	)
	prepare["replay-job"] = func(w *world) op.Op {
		l := w.leased("q", 1)[0]
		o := ack(l)
		o.Items[0].AgentStatus, o.Items[0].Checkpoint = job.Continue, &job.Blob{Data: []byte("1")}
		w.apply(o)
		id := w.newID("q")
		return &op.ReplayJob{Meta: &op.Meta{Ids: [][]byte{id[:]}}, JobId: l.Id, From: 1}
	}
	done := prepare["ack"]
	prepare["ack"] = func(w *world) op.Op {
		o := done(w).(*op.Ack)
		for i, l := range w.leased("agents", 2) {
			item := ack(l).Items[0]
			item.AgentStatus = []job.IterationStatus{job.Continue, job.Suspend}[i]
			item.Usage, item.Checkpoint = &job.Usage{InputTokens: 5}, &job.Blob{Data: []byte("1")}
			o.Items = append(o.Items, item)
		}
		return o
	}
}

// replay reads the name of a new job, of= and from=.
func (s *story) replay(items []item) op.Op {
	i := items[0]
	o := &op.ReplayJob{Meta: s.meta(i), From: uint32(i.number(s.t, "from", 0)), JobId: s.proof(item{words: []string{i.text("of", "")}}).Id}
	for _, name := range i.words {
		id, ok := s.jobs[name]
		if !ok {
			id = s.newID(i.text("queue", "q"))
			s.jobs[name], s.names[id] = id, name
		}
		o.Meta.Ids = append(o.Meta.Ids, id[:])
	}
	return o
}

// score reads a job, on=, value= and scorer=.
func (s *story) score(items []item) op.Op {
	i := items[0]
	value, err := strconv.ParseFloat(i.text("value", "0"), 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return &op.ScoreJob{Meta: s.meta(i), JobId: s.proof(i).Id, Score: &job.Score{
		Dimension: repeated(i.text("on", "")), Value: value, Scorer: repeated(i.text("scorer", "")),
	}}
}

// agentOptions reads agent=yes, max-iterations=, max-cost=, timeout= and estimate=.
func (s *story) agentOptions(i item, nj *op.NewJob) {
	agent := &job.AgentConfig{
		MaxIterations:      uint32(i.number(s.t, "max-iterations", 0)),
		MaxCostNanoUsd:     int64(i.number(s.t, "max-cost", 0)),
		IterationTimeoutMs: i.millis(s.t, "timeout", 0),
	}
	if agent.SizeVT() > 0 || i.text("agent", "") != "" {
		nj.Opt().Agent = agent
	}
	nj.Opt().CostEstimateNanoUsd = int64(i.number(s.t, "estimate", 0))
}

// agentItem reads agent=, reason=, trace= and tools= of an ack.
func (s *story) agentItem(i item, a *op.AckItem) {
	a.AgentStatus, _ = job.ParseIterationStatus(i.text("agent", ""))
	if i.text("agent", "") == "strange" {
		a.AgentStatus = 7
	}
	a.HoldReason, a.Trace = repeated(strings.ReplaceAll(i.text("reason", ""), "_", " ")), i.blob(s.t, "trace")
	a.ExitChain = i.text("step", "") == "exit"
	if i.text("tools", "") != "" {
		a.ToolCalls = []*op.ToolCall{{Name: i.text("tools", "")}}
	}
}

// printAgent prints the agent's fields of a job, and its scores.
func (s *story) printAgent(v *state.Snapshot, j *job.Job) {
	if d := j.Detail; j.State == job.Held {
		fmt.Fprintf(&s.out, "  held (%s): %s\n", strings.ToLower(d.GetHold().String()), d.GetHoldReason())
	}
	if d := j.Detail; j.Options.GetAgent() != nil || d.GetIteration() > 0 {
		fmt.Fprintf(&s.out, "  iterations %d, %d kept with %d bytes, cost %d, attempts since %d\n", d.GetIteration(), d.GetIterationsKept(), d.GetIterationBytes(), j.AgentCost(), j.AttemptBase)
	}
	if o := j.Options; len(o.GetReplayOf()) > 0 {
		fmt.Fprintf(&s.out, "  replay of %s from %d\n", s.name(o.ReplayOf), o.ReplayFrom)
	}
	for it, err := range v.Iterations(job.ID(j.Id), 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		u := it.Usage
		fmt.Fprintf(&s.out, "  iteration %d %s by attempt %d of %s from %s to %s, in %d out %d cost %d, in all %d, checkpoint of %d:", it.Number, it.Status.Word(), it.Attempt, it.WorkerId,
			s.moment(it.StartedNs), s.moment(it.CreatedNs), u.GetInputTokens(), u.GetOutputTokens(), u.GetCostNanoUsd(), it.TotalCostNanoUsd, it.CheckpointIn)
		fmt.Fprintf(&s.out, " reason %q checkpoint %q trace %q result %q\n", it.HoldReason, it.Checkpoint.GetData(), it.Trace.GetData(), it.Result.GetData())
	}
	scores, err := v.Scores(job.ID(j.Id))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, score := range scores.GetScores() {
		fmt.Fprintf(&s.out, "  score %q %g by %q at %s\n", score.Dimension, score.Value, score.Scorer, s.moment(score.CreatedNs))
	}
}

// iteration gives an ack a random agent status and sometimes a trace.
func (h *havoc) iteration(item *op.AckItem) {
	item.AgentStatus = job.IterationStatus(h.below(4, "agent status"))
	if item.AgentStatus == job.Continue || item.AgentStatus == job.Suspend {
		item.ExitChain = false
	}
	if h.once(3, "trace") {
		item.Trace = &job.Blob{Data: []byte("t")}
	}
	if h.once(3, "checkpoint") {
		item.Checkpoint = &job.Blob{Data: []byte("c")}
	}
}

// replay builds a replay of some job from an iteration that it may have had.
func (h *havoc) replay(m *op.Meta) op.Op {
	id := h.w.newID(h.anyQueue())
	m.Ids = [][]byte{id[:]}
	return &op.ReplayJob{Meta: m, JobId: h.pick(h.jobs), From: uint32(1 + h.below(3, "from"))}
}
