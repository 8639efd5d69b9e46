package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// aheadFrame returns a frame of the present build, with one row for each of some hours after the first.
func aheadFrame(namespace string, from, to uint64, hours ...int64) *ApplyUsage {
	o := frame(namespace, from, to)
	for _, h := range hours {
		o.Rows = append(o.Rows, &UsageRow{HourNs: h * int64(time.Hour), Queue: "q", Meter: uint32(billing.InputTokens), Quantity: 1})
	}
	o.RowsSha256 = hash("rows")
	return o
}

// Rows more than an hour ahead of the entry's clock are set aside as one frame, and no sum has them. The other rows count,
// and the source goes on. A repeat changes nothing, and rows of an earlier build count as they did there.
func TestRowsAheadAreSetAside(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	start := epochNs/int64(time.Hour) + 1
	w.clockNs = start * int64(time.Hour)
	bound := start + 1 // begins an hour ahead: it counts
	if r := do[*ApplyUsageResult](w, aheadFrame("ns_a", 1, 4, start, bound+1, bound, bound+9)); r.Last != 4 || r.Ahead != 2 {
		t.Errorf("applied up to %d, %d rows are ahead", r.Last, r.Ahead)
	}
	before := w.dump()
	w.ok(aheadFrame("ns_a", 1, 4, bound+1))
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("a repeat has changed the state: %s", diff)
	}
	if r := do[*ApplyUsageResult](w, aheadFrame("ns_a", 5, 5, start)); r.Last != 5 || r.Ahead != 0 {
		t.Errorf("applied up to %d, %d rows are ahead", r.Last, r.Ahead)
	}
	if total, _ := w.usage(always("org_acme")); total[billing.InputTokens] != money.CountOf(3) {
		t.Errorf("used %s", total[billing.InputTokens])
	}
	all, err := w.store().AsideUsage(t.Context(), 0, MaxPage)
	if err != nil || len(all) != 1 || all[0].From != 1 || all[0].To != 4 || all[0].Code != "VALIDATION_ERROR" || !strings.Contains(all[0].Reason, "2 rows begin more than 1h0m0s after") {
		t.Fatalf("set aside: %+v, %v", all, err)
	}
	_, text, err := w.store().AsideFrame(t.Context(), all[0].Seq)
	rows := []billing.Row{
		{Dimensions: billing.Dimensions{HourNs: (bound + 1) * int64(time.Hour), Queue: "q"}, Meter: billing.InputTokens, Quantity: 1},
		{Dimensions: billing.Dimensions{HourNs: (bound + 9) * int64(time.Hour), Queue: "q"}, Meter: billing.InputTokens, Quantity: 1},
	}
	want := fmt.Sprintf(`{"namespace":"ns_a","stream":"shard/0","incarnation":"aa","from":1,"to":4,"usage":[{"hour_ns":%d,"queue":"q","meter":3,"quantity":1},`+
		`{"hour_ns":%d,"queue":"q","meter":3,"quantity":1}],"rows_sha256":%q}`, rows[0].HourNs, rows[1].HourNs, billing.HashRows(rows))
	if err != nil || string(text) != want { // these bytes are state: all builds must make the same
		t.Errorf("the frame is %s, %v; want %s", text, err, want)
	}
	audit, err := w.store().Audit(t.Context(), "org_acme", 0, MaxPage)
	left := func(r AuditRow) bool {
		return r.Seq == all[0].Seq && r.Action == "set-aside-usage" && r.Principal == "host" && r.Target == "ns_a"
	}
	if err != nil || !slices.ContainsFunc(audit, left) {
		t.Errorf("the audit log: %+v, %v", audit, err)
	}
	w.ok(&RemoveAsideUsage{Meta: by("op"), Seq: all[0].Seq})
	earlier := aheadFrame("ns_b", 1, 1, bound+1)
	earlier.RowsSha256 = nil
	if r := do[*ApplyUsageResult](w, earlier); r.Ahead != 0 {
		t.Error("rows of an earlier build are set aside")
	}
}

// Rows ahead have a part of the room of the cloud. Beyond it the whole frame is refused, and counts nothing until there is room.
func TestRowsAheadAreBounded(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	w.limits.ahead.Frames = 1
	now := epochNs / int64(time.Hour)
	room := func(o *ApplyUsage) error { return w.store().AheadRoom(t.Context(), o, time.Unix(0, w.clockNs)) }
	first, over := aheadFrame("ns_a", 1, 1, now+9), aheadFrame("ns_b", 1, 1, now, now+9)
	if err := room(first); err != nil {
		t.Fatal(err)
	}
	w.ok(first)
	if err := room(first); err != nil {
		t.Errorf("a repeat: %v", err)
	}
	if err := room(over); refused(err, api.Overloaded) != nil {
		t.Errorf("the read says %v", err)
	}
	if refusal := w.refused(api.Overloaded, over); refusal.RetryAfter != asideRetry {
		t.Errorf("try again after %s", refusal.RetryAfter)
	}
	if err := room(aheadFrame("ns_b", 1, 1, now)); err != nil {
		t.Errorf("no row is ahead: %v", err)
	}
	w.ok(deletion("b"), aside("b", 1, 1)) // a deletion has room
	w.limits.ahead.Frames = 3
	w.ok(aheadFrame("ns_b", 2, 2, now, now+9))
}
