package sinks

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/engine/entry"
)

// The ledger gets each row of a refounded store once: those that it lacked as rows of the earlier history, and later ones
// as rows of the new one, from 1. Rows that the earlier history delivered and this copy lacks count too.
func TestUsageOfARefoundedStore(t *testing.T) {
	for name, delivered := range map[string]uint64{
		"nothing was delivered": 0, "the ledger lacks rows": 4, "the ledger has every row": 10, "the ledger has rows that the copy lacks": 13,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.report(10)
				if delivered > 0 { // the receiver has these without a sum, so that a second delivery would show
					w.receiver.last[w.source()] = delivered
				}
				w.want = map[meter]*billing.Quantities{}
				for seq := delivered + 1; seq <= 10; seq++ {
					w.expect("q", w.reported[seq-1])
				}
				second, third := entry.Incarnation{0xcd}, entry.Incarnation{0xef}
				w.refound(second)
				w.refound(third) // the group may be refounded again before anything is written
				w.report(5)
				stop := w.run()
				pass(time.Minute)
				w.exact()
				w.report(3)
				pass(time.Minute)
				w.exact()
				stop()
				want := map[billing.Source]uint64{w.source(): max(delivered, 10), sourceOf(second): 0, sourceOf(third): 8}
				for source, last := range want {
					if got := w.receiver.last[source]; got != last {
						t.Errorf("the ledger has %d rows of %s, not %d", got, source.Incarnation, last)
					}
				}
				if w.usage.Err() != nil || w.usage.Owed() != 0 {
					t.Errorf("%d rows are owed: %v", w.usage.Owed(), w.usage.Err())
				}
			})
		})
	}
}

func sourceOf(incarnation entry.Incarnation) billing.Source {
	return billing.Source{Namespace: "ns_1", Stream: "shard/0", Incarnation: hex.EncodeToString(incarnation[:])}
}
