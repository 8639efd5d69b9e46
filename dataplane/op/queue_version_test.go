package op_test

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// queueVersion returns the version of a queue's settings in the store.
func (w *world) queueVersion(name string) uint64 {
	w.t.Helper()
	v := w.store.Snapshot()
	defer v.Close()
	q, err := v.Queue(name)
	if err != nil || q == nil {
		w.t.Fatalf("queue %s: %v, %v", name, q, err)
	}
	version, err := op.QueueVersion(q)
	if err != nil {
		w.t.Fatal(err)
	}
	return version
}

// Each setting that SetQueue knows is in the version, and nothing else of the queue is.
func TestQueueVersionIsOfAllSettings(t *testing.T) {
	t.Parallel()
	yes, one, ms, length := true, uint32(1), int64(1000), uint64(1)
	drop, provider := job.Overflow_OVERFLOW_DROP_OLDEST, "p"
	all := map[protoreflect.Name]*op.SetQueue{
		"paused":          {Paused: &yes},
		"draining":        {Draining: &yes},
		"max_concurrency": {MaxConcurrency: &one},
		"rate_limit":      {RateLimit: &one, RateWindowMs: &ms},
		"max_length":      {MaxLength: &length},
		"overflow":        {Overflow: &drop},
		"provider":        {Provider: &provider},
		"ageing_ms":       {AgeingMs: &ms},
		"retention":       {Retention: &job.Retention{DeadMs: 1000}},
		"defaults":        {Defaults: &state.QueueDefaults{MaxAttempts: &one}},
	}
	w := newWorld(t)
	w.apply(&op.SetQueue{Queue: "q"})
	seen := map[uint64]protoreflect.Name{w.queueVersion("q"): "none"}
	for name, o := range all {
		o.Queue = "q-" + string(name)
		w.apply(o)
		version := w.queueVersion(o.Queue)
		if before, there := seen[version]; there || version == 0 || version>>63 != 0 {
			t.Errorf("with %s the version is %d, as with %s", name, version, before)
		}
		seen[version] = name
	}
	fields := (&op.SetQueue{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		switch name := fields.Get(i).Name(); name {
		case "meta", "queue", "if_version", "create", "rate_window_ms":
		default:
			if all[name] == nil {
				t.Errorf("nobody looks whether %s is in the version", name)
			}
		}
	}
	w.apply(&op.SetQueue{Queue: "q", Retention: &job.Retention{}, Defaults: &state.QueueDefaults{}})
	w.apply(w.newJobs("q", 3))
	if name := seen[w.queueVersion("q")]; name != "none" {
		t.Errorf("jobs, and settings that say nothing, made the version that of %q", name)
	}
}

// Replicas with different binaries must judge an op alike, so the version of given settings never changes.
func TestQueueVersionsAreFrozen(t *testing.T) {
	t.Parallel()
	one := uint32(1)
	for want, q := range map[uint64]*state.Queue{
		4731101021104424429: {Name: "plain", Enqueued: 7},
		4901711536396449746: {
			Paused: true, Draining: true, MaxConcurrency: 2, RateLimit: 3, RateWindowMs: 4, AgeingMs: 5, MaxLength: 6,
			Overflow: job.Overflow_OVERFLOW_DROP_OLDEST, Provider: "p", Retention: &job.Retention{DeadMs: 8}, Defaults: &state.QueueDefaults{MaxAttempts: &one},
		},
	} {
		if got, err := op.QueueVersion(q); err != nil || got != want {
			t.Errorf("the version of %v is %d, %v; it was %d", q, got, err, want)
		}
	}
}

// A client does not overwrite settings that it has not seen, because the version is checked in the entry of the
// op.
func TestSetQueueOnlyIf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	yes, five, seven := true, uint32(5), uint64(7)
	refused := func(o *op.SetQueue) {
		t.Helper()
		if err, _ := w.apply(o)[0].(error); api.CodeOf(err) != api.PreconditionFailed {
			t.Errorf("answered %v", err)
		}
	}
	refused(&op.SetQueue{Queue: "q", IfVersion: 1})
	w.apply(&op.SetQueue{Queue: "q", Create: true})
	refused(&op.SetQueue{Queue: "q", Create: true, Paused: &yes})
	seen := w.queueVersion("q")
	results := w.apply(
		&op.SetQueue{Queue: "q", IfVersion: seen, MaxConcurrency: &five},
		&op.SetQueue{Queue: "q", IfVersion: seen, MaxLength: &seven},
	)
	if err, _ := results[1].(error); results[0] == nil || api.CodeOf(err) != api.PreconditionFailed {
		t.Errorf("of two at once, answered %v", results)
	}
	seen = w.queueVersion("q")
	w.apply(&op.SetQueue{Queue: "q", Paused: &yes})
	refused(&op.SetQueue{Queue: "q", IfVersion: seen, MaxLength: &seven})
}

// A client does not delete a queue with settings that it has not seen.
func TestDeleteQueueOnlyIf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	yes := true
	w.apply(&op.SetQueue{Queue: "q"})
	seen := w.queueVersion("q")
	results := w.apply(&op.SetQueue{Queue: "q", Paused: &yes}, &op.DeleteQueue{Queue: "q", IfVersion: seen})
	if err, _ := results[1].(error); api.CodeOf(err) != api.PreconditionFailed {
		t.Errorf("paused meanwhile: %v", results[1])
	}
	one[*op.DeleteQueueResult](w, &op.DeleteQueue{Queue: "q", IfVersion: w.queueVersion("q")})
	if err, _ := w.apply(&op.DeleteQueue{Queue: "q", IfVersion: seen})[0].(error); api.CodeOf(err) != api.NotFound {
		t.Errorf("gone: %v", err)
	}
}
