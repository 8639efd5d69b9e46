package op_test

import (
	"fmt"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	builders["record-usage"] = func(s *story, items []item) op.Op {
		i := items[0]
		return &op.RecordUsage{Meta: s.meta(i), Queues: i.words, StoredBytes: uint64(i.number(s.t, "stored", 0))}
	}
	moreValid = append(moreValid,
		func(*world) op.Op { return &op.RecordUsage{Queues: []string{"q"}, StoredBytes: 1} },
		func(*world) op.Op { return &op.RecordUsage{} },
	)
	bounds = append(bounds,
		bound{"record-usage", "queues", job.MaxMeteredQueues, api.ValidationError, func(o op.Op, n int) {
			o.(*op.RecordUsage).Queues = strings.Fields(strings.Repeat("q ", n))
		}},
		bound{"record-usage", "stored_bytes", job.MaxStoredBytes, api.ValidationError, func(o op.Op, n int) { o.(*op.RecordUsage).StoredBytes = uint64(n) }},
	)
	prepare["record-usage"] = func(w *world) op.Op {
		w.apply(&op.RecordUsage{})
		w.apply(w.newJobs("q", 3))
		w.clockNs += 1e9
		return &op.RecordUsage{Queues: []string{"q"}, StoredBytes: 100}
	}
}

// printMeters prints the quantities of a usage row.
func (s *story) printMeters(m *state.ShardMeters) {
	fmt.Fprintf(&s.out, "open %d s, stored %d byte-seconds", m.OpenSeconds, m.StoredByteSeconds)
	for _, q := range m.Queues {
		fmt.Fprintf(&s.out, "; %s: enqueued %d completed %d active %d s", q.Queue, q.JobsEnqueued, q.JobsCompleted, q.ActiveSeconds)
	}
	s.out.WriteString("\n")
}
