package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
)

// sized returns a frame of n bytes that is set aside.
func sized(name string, at uint64, n int) *SetAsideUsage {
	o := aside(name, at, at)
	o.Frame = make([]byte, n)
	return o
}

// At each bound one more frame is refused as OVERLOADED, with the time of the next try, until an operator
// removes a frame. A repeat of a frame that is set aside needs no room.
func TestAsideBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cloud, own AsideTotals
		full       []*SetAsideUsage // reaches the bound
		over       *SetAsideUsage
		fits       *SetAsideUsage // has room beside full; nil = none has
	}{
		"frames of a namespace": {AsideTotals{9, 99}, AsideTotals{2, 99}, []*SetAsideUsage{sized("a", 1, 1), sized("a", 2, 1)}, sized("a", 3, 1), sized("b", 1, 1)},
		"bytes of a namespace":  {AsideTotals{9, 99}, AsideTotals{9, 10}, []*SetAsideUsage{sized("a", 1, 4), sized("a", 2, 5)}, sized("a", 3, 2), sized("a", 3, 1)},
		"frames of the cloud":   {AsideTotals{2, 99}, AsideTotals{9, 99}, []*SetAsideUsage{sized("a", 1, 1), sized("b", 1, 1)}, sized("x", 1, 1), nil},
		"bytes of the cloud":    {AsideTotals{9, 10}, AsideTotals{9, 99}, []*SetAsideUsage{sized("a", 1, 4), sized("b", 1, 5)}, sized("x", 1, 2), sized("x", 1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := usageWorld(t)
			w.limits.aside, w.limits.namespaceAside = c.cloud, c.own
			w.ok(deletion("a"), deletion("b"), deletion("x"))
			room := func(o *SetAsideUsage) error {
				source := billing.Source{Namespace: o.Namespace, Stream: o.Stream, Incarnation: o.Incarnation}
				return w.store().AsideRoom(t.Context(), source, o.To, len(o.Frame))
			}
			for _, o := range c.full {
				if err := room(o); err != nil {
					t.Fatal(err)
				}
				w.ok(o)
			}
			if err := room(c.over); refused(err, api.Overloaded) != nil {
				t.Errorf("the read says %v", err)
			}
			if refusal := w.refused(api.Overloaded, c.over); refusal.RetryAfter != asideRetry {
				t.Errorf("try again after %s", refusal.RetryAfter)
			}
			if err := room(c.full[0]); err != nil {
				t.Errorf("a repeat: %v", err)
			}
			w.ok(c.full[0])
			if c.fits != nil {
				w.ok(c.fits)
			}
			all, err := w.store().AsideUsage(t.Context(), 0, MaxPage)
			if err != nil {
				t.Fatal(err)
			}
			for _, frame := range all {
				w.ok(&RemoveAsideUsage{Meta: by("op"), Seq: frame.Seq})
			}
			if c.fits != nil && c.fits.Namespace == c.over.Namespace {
				return // its number is taken
			}
			w.ok(c.over)
		})
	}
}

// An operator removes a frame. The removal is in the audit log, the frame's number is never used again, its
// source stays where it is, and nothing else can delete a frame.
func TestAsideUsageIsRemoved(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	w.ok(deletion("a"), aside("a", 1, 2), aside("a", 3, 3))
	all, err := w.store().AsideUsage(t.Context(), 0, MaxPage)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	first, second := all[0].Seq, all[1].Seq
	for _, text := range []string{"DELETE FROM usage_aside", fmt.Sprint("DELETE FROM usage_aside WHERE seq = ", second), "UPDATE usage_aside SET code = 'x'"} {
		if _, err := w.db.exec(text); err == nil {
			t.Errorf("%s was done", text)
		}
	}
	w.refused(api.NotFound, &RemoveAsideUsage{Meta: by("op"), Seq: second + 1})
	w.ok(&RemoveAsideUsage{Meta: by("op"), Seq: second})
	w.refused(api.NotFound, &RemoveAsideUsage{Meta: by("op"), Seq: second})
	for _, other := range []int64{first, second} { // the newest audit row names the frame that is gone
		if n, err := w.db.exec(fmt.Sprint("DELETE FROM usage_aside WHERE seq = ", other)); err == nil {
			if rows, _ := n.RowsAffected(); rows != 0 {
				t.Errorf("frame %d was deleted", other)
			}
		}
	}
	if totals, err := w.store().AsideTotals(t.Context()); err != nil || totals != (AsideTotals{Frames: 1, Bytes: all[0].Bytes}) {
		t.Errorf("left are %+v, %v", totals, err)
	}
	if r := do[*SetAsideUsageResult](w, aside("a", 3, 3)); r.Last != 3 {
		t.Errorf("the frame that was removed is wanted again: %d", r.Last)
	}
	w.ok(aside("a", 4, 4))
	if all, err = w.store().AsideUsage(t.Context(), first, MaxPage); err != nil || len(all) != 1 || all[0].Seq <= second {
		t.Errorf("after %d and %d comes %+v, %v", first, second, all, err)
	}
	rows, err := w.store().Audit(t.Context(), "org_acme", 0, MaxPage)
	removed := func(r AuditRow) bool {
		return r.Action == "remove-aside-usage" && r.Principal == "op" && r.Target == fmt.Sprintf("ns_a/%d", second)
	}
	if err != nil || !slices.ContainsFunc(rows, removed) {
		t.Errorf("the audit log: %+v, %v", rows, err)
	}
	if err := w.store().VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
}
