package op_test

import (
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

// These functions prepare a world in which the ops about queues have work.
func init() {
	prepare["sweep-queue"] = func(w *world) op.Op {
		o := w.newJobs("q", 3)
		w.apply(o)
		below := w.apply(&op.ClearQueue{Queue: "q"})[0].(*op.ClearQueueResult).Below
		return &op.SweepQueue{Queue: "q", JobIds: o.Meta.Ids, Last: true, Below: below}
	}
	prepare["replenish"] = func(w *world) op.Op {
		limit, window := uint32(1), time.Second.Milliseconds()
		w.apply(&op.SetQueue{Queue: "q", RateLimit: &limit, RateWindowMs: &window})
		w.apply(w.newJobs("q", 3))
		w.apply(w.fetch("q", 1))
		w.clockNs += int64(2 * time.Second)
		return &op.Replenish{Queues: []string{"q"}}
	}
}
