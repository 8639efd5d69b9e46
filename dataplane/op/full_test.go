package op_test

import (
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// heavy builds n jobs with chains that carry as many bytes as allowed.
func (w *world) heavy(n int) (ids [][]byte) {
	w.t.Helper()
	payload := &job.Blob{Data: make([]byte, job.MaxChainBytes-100)}
	for range n {
		o := w.newJobs("q", 1)
		o.Jobs[0].Payload = payload
		o.Jobs[0].Chain = &job.Chain{Steps: []*job.Step{{Queue: "q"}}, Exit: &job.Step{Queue: "next"}}
		one[*op.EnqueueResult](w, o)
		ids = append(ids, o.Meta.Ids[0])
	}
	return ids
}

// The consequences of a small op are bounded: an entry writes a limited amount, and the rest is not lost.
func TestAnEntryIsNotOverfilled(t *testing.T) {
	t.Parallel()
	const n = state.MaxEntryDocuments/job.MaxChainBytes + 20
	over := func(w *world) {
		t.Helper()
		next := queueRecord(w, "next").GetInState()[job.Pending]
		if most := uint64(n - 10); next == 0 || next > most {
			t.Errorf("an entry has made %d next steps", next)
		}
		w.check()
	}
	for name, act := range map[string]func(w *world, ids [][]byte){
		"ack": func(w *world, _ [][]byte) {
			leased := one[*op.FetchResult](w, w.fetch("q", n)).Jobs
			refused := 0
			for round := 0; round == 0 || refused > 0; round++ {
				refused = 0
				for _, item := range one[*op.AckResult](w, ack(leased...)).Items {
					switch api.Code(item.GetCode()) {
					case "":
					case api.Overloaded:
						refused++
					default:
						t.Fatal(item)
					}
				}
				if round == 0 {
					over(w)
				}
			}
		},
		"delete": func(w *world, ids [][]byte) {
			for round := 0; round < 5; round++ {
				w.apply(&op.DeleteJobs{JobIds: ids})
				if round == 0 {
					over(w)
				}
			}
		},
		"clear": func(w *world, ids [][]byte) {
			below := one[*op.ClearQueueResult](w, &op.ClearQueue{Queue: "q"}).Below
			for round := 0; queueRecord(w, "q").ClearBelow > 0; round++ {
				w.apply(&op.SweepQueue{Queue: "q", JobIds: ids, Below: below, Last: true})
				if round == 0 {
					over(w)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.heavy(n)
			act(w, ids)
			if got := queueRecord(w, "next").GetInState()[job.Pending]; got != n {
				t.Errorf("%d next steps were made in the end, of %d", got, n)
			}
			w.check()
		})
	}
}
