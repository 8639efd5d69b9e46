package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// The commands of limit rules: put-rule and drop-rule name one as queue/key.
func init() {
	builders["put-rule"] = (*story).putRule
	builders["drop-rule"] = func(_ *story, items []item) op.Op {
		queue, key, _ := strings.Cut(items[0].words[0], "/")
		return unruled(queue, key)
	}
}

// putRule reads a rule's name, most=, rate=, window= and paused.
func (s *story) putRule(items []item) op.Op {
	i := items[0]
	queue, key, _ := strings.Cut(i.words[0], "/")
	return s.rule(&state.LimitRule{
		Queue: queue, Key: strings.ReplaceAll(repeated(key), "%00", "\x00"), Paused: i.has("paused"),
		MaxConcurrency: uint32(i.number(s.t, "most", 0)),
		RateLimit:      uint32(i.number(s.t, "rate", 0)), RateWindowMs: i.millis(s.t, "window", 0),
	})
}

// The limits of fairness keys and weights, and values one beyond.
func TestFairnessBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, o := range map[string]func(beyond int) op.Op{
		"jobs[0].fairness_key": func(beyond int) op.Op {
			return w.keyed("q", strings.Repeat("k", job.MaxFairnessKey+beyond), 1, 1)
		},
		"jobs[0].fairness_weight": func(beyond int) op.Op { return w.keyed("q", "k", uint32(job.MaxFairnessWeight+beyond), 1) },
		"max_concurrency": func(beyond int) op.Op {
			return w.rule(&state.LimitRule{Queue: "q", Key: "k", MaxConcurrency: uint32(job.MaxConcurrency + beyond)})
		},
		"rate_limit": func(beyond int) op.Op {
			return w.rule(&state.LimitRule{Queue: "q", Key: "k", RateLimit: uint32(job.MaxRateLimit + beyond), RateWindowMs: 1000})
		},
		"rate_window": func(beyond int) op.Op {
			return w.rule(&state.LimitRule{Queue: "q", Key: "*", RateLimit: 1, RateWindowMs: job.MaxRateWindow.Milliseconds() + int64(beyond)})
		},
	} {
		if err := o(0).Validate(); err != nil {
			t.Errorf("%s at the bound: %v", name, err)
		}
		if err := o(1).Validate(); api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), name) {
			t.Errorf("%s beyond the bound: %v", name, err)
		}
	}
}

// The maximum number of keys is accepted and one more is refused to clients, but jobs that cannot be refused are
// accepted with new keys all the same.
func TestLanesBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := 0
	keys := func(count int) *op.Enqueue {
		o := w.newJobs("q", count)
		for _, nj := range o.Jobs {
			nj.FairnessKey = fmt.Sprint("k", n)
			n++
		}
		return o
	}
	gone := keys(1) // its lane is forgotten when it ends
	w.apply(gone)
	first := ack(one[*op.FetchResult](w, w.fetch("q", 1)).Jobs...)
	first.Items[0].AgentStatus = job.Continue
	w.apply(first)
	w.apply(&op.CancelJobs{Meta: &op.Meta{}, JobIds: gone.Meta.Ids})
	for left := job.MaxLanes - 1; left > 0; left -= 1000 { // the jobs without a key have one lane, too
		w.apply(keys(min(left, 1000)))
	}
	err, _ := w.apply(keys(1))[0].(error)
	if api.CodeOf(err) != api.Overloaded || !strings.Contains(err.Error(), fmt.Sprint(job.MaxLanes)) {
		t.Errorf("one key too many: %v", err)
	}
	id := w.newID("q")
	err, _ = w.apply(&op.ReplayJob{Meta: &op.Meta{Ids: [][]byte{id[:]}}, JobId: gone.Meta.Ids[0], From: 1})[0].(error)
	if api.CodeOf(err) != api.Overloaded {
		t.Errorf("the replay of a job whose key is one too many: %v", err)
	}
	one[*op.EnqueueResult](w, w.keyed("q", "k7", 0, 3))
	made := keys(1)
	one[*op.CreateJobsResult](w, &op.CreateJobs{Meta: made.Meta, Jobs: made.Jobs})
	if got := w.store.Head().LaneRecords; got != job.MaxLanes+1 {
		t.Errorf("there are %d lanes", got)
	}
	w.check()
}
