package store

import (
	"bytes"
	"database/sql"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// hourNs is the start of an hour that is not the first of its day.
const hourNs = int64(1_700_002_800) * int64(time.Second)

// frame returns a frame with the quantities of rows as an earlier build sent them, but in rows of one meter.
func frame(namespace string, from, to uint64, rows ...*UsageRow) *ApplyUsage {
	o := &ApplyUsage{Meta: by("host"), Namespace: namespace, Stream: "shard/0", Incarnation: "aa", From: from, To: to}
	for _, r := range rows {
		for _, m := range r.metered() {
			o.Rows = append(o.Rows, &UsageRow{HourNs: r.HourNs, Queue: r.Queue, Model: r.Model, Provider: r.Provider, Meter: uint32(m.meter), Quantity: m.quantity})
		}
	}
	return o
}

// earlierFrame returns a frame of an earlier build.
func earlierFrame(namespace string, from, to uint64, rows ...*UsageRow) *ApplyUsage {
	o := frame(namespace, from, to)
	o.Rows = rows
	return o
}

func usageRow(queue, model string, cost int64) *UsageRow {
	return &UsageRow{HourNs: hourNs, Queue: queue, Model: model, Provider: "p", Reports: 1, InputTokens: 2, OutputTokens: 3,
		CacheCreationTokens: 4, CacheReadTokens: 5, CostNanoUsd: cost, Requests: 6, RequestBytes: 7, ResponseBytes: 8}
}

func usageWorld(t *testing.T) *world {
	w := newWorld(t)
	w.ok(newOrg("acme"), newOrg("other"), newNamespace("org_acme", "a"), newNamespace("org_acme", "b"), newNamespace("org_other", "x"))
	return w
}

func (w *world) usage(q UsageQuery) (billing.Totals, []UsageGroup) {
	w.t.Helper()
	sums, err := w.store().Usage(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return sums.Total, sums.Groups
}

func always(org tenancy.OrgID) UsageQuery {
	return UsageQuery{Org: org, FromNs: 0, ToNs: hourNs + int64(1000*time.Hour)}
}

// A frame counts once. A repeated or premature frame changes nothing, and the sender learns the number to
// continue from.
func TestUsageCountsOnce(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	audited := w.head.Load().auditSeq
	w.refused(api.NotFound, frame("ns_none", 1, 1, usageRow("q", "m", 1)))
	w.refused(api.StateConflict, frame("ns_a", 2, 2, usageRow("q", "m", 1)))
	if r := do[*ApplyUsageResult](w, frame("ns_a", 1, 3, usageRow("q", "m", 100), usageRow("q", "m", 11))); r.Last != 3 {
		t.Errorf("applied up to %d", r.Last)
	}
	before := w.dump()
	for _, repeat := range []*ApplyUsage{frame("ns_a", 1, 3, usageRow("q", "m", 111)), frame("ns_a", 2, 2, usageRow("q", "m", 5)), frame("ns_a", 1, 1, usageRow("q", "m", 5))} {
		if r := do[*ApplyUsageResult](w, repeat); r.Last != 3 {
			t.Errorf("a repeat answers %d", r.Last)
		}
	}
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("a repeat has changed the state: %s", diff)
	}
	for _, wrong := range []*ApplyUsage{frame("ns_a", 5, 6, usageRow("q", "m", 1)), frame("ns_a", 3, 4, usageRow("q", "m", 1)), frame("ns_a", 1, 9, usageRow("q", "m", 1))} {
		if refusal := w.refused(api.StateConflict, wrong); refusal.Details["last"] != uint64(3) {
			t.Errorf("[%d, %d] is refused with %v", wrong.From, wrong.To, refusal.Details)
		}
	}
	// Each source has its own sequence.
	gateway := frame("ns_a", 1, 1, usageRow("", "", 0))
	gateway.Stream = "gateway/g1"
	next := frame("ns_a", 1, 1, usageRow("q", "m", 1000))
	next.Incarnation = "bb"
	w.ok(gateway, next, frame("ns_a", 4, 4, usageRow("q", "m", 10000)))
	total, groups := w.usage(always("org_acme"))
	if money.Total(total[billing.Cost]).Nano() != 11111 || total[billing.Reports].Int64() != 5 || total[billing.ResponseBytes].Int64() != 40 {
		t.Errorf("used %+v", total)
	}
	if groups != nil {
		t.Errorf("a sum has the groups %+v", groups)
	}
	last, err := w.store().LastUsage(t.Context(), billing.Source{Namespace: "ns_a", Stream: "shard/0", Incarnation: "aa"})
	if err != nil || last != 4 {
		t.Errorf("last is %d, %v", last, err)
	}
	if w.head.Load().auditSeq != audited {
		t.Error("usage left audit rows")
	}
	// Usage from before the deletion is still accepted and counted.
	w.ok(deletion("a"), removal("a"), frame("ns_a", 5, 5, usageRow("q", "m", 100000)))
	if total, _ := w.usage(always("org_acme")); money.Total(total[billing.Cost]).Nano() != 111111 {
		t.Errorf("used %v", total[billing.Cost])
	}
}

// The journal keeps the hash of each frame's rows, once, and nothing changes or removes it. A frame of an earlier build has none.
func TestFramesKeepTheirHash(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	hashed := frame("ns_a", 1, 3, &UsageRow{HourNs: hourNs, Queue: "q", CostNanoUsd: 5, InputTokens: 7})
	hashed.RowsSha256 = hash("rows")
	w.ok(hashed, hashed, frame("ns_a", 4, 4, usageRow("q", "m", 1)))
	scan := func(rows *sql.Rows) (text string, err error) {
		var from, to, number int64
		var sum []byte
		err = rows.Scan(&from, &to, &number, &sum)
		return fmt.Sprintf("[%d, %d] %d %t", from, to, number, bytes.Equal(sum, hash("rows"))), err
	}
	got, err := list(w.db, scan, "SELECT from_seq, to_seq, rows, rows_sha256 FROM usage_frames")
	if err != nil || !slices.Equal(got, []string{"[1, 3] 2 true"}) {
		t.Errorf("kept are %q, %v", got, err)
	}
	for _, text := range []string{"UPDATE usage_frames SET rows = 1", "DELETE FROM usage_frames"} {
		if _, err := w.db.exec(text); err == nil {
			t.Errorf("%s was done", text)
		}
	}
}

// Large sums are exact to the nano-dollar, and no frame is refused for its size: a sum that exceeds an
// integer of SQL continues in another part.
func TestUsageIsExact(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	const large = math.MaxInt64 - 2
	var want money.Count
	for seq, cost := range []int64{large, 1, 1, 2, large, math.MaxInt64, 5} {
		w.ok(frame("ns_a", uint64(seq+1), uint64(seq+1), &UsageRow{HourNs: hourNs, Queue: "q", CostNanoUsd: cost, InputTokens: cost}))
		want = want.Add(money.CountOf(cost))
		if total, _ := w.usage(always("org_acme")); total[billing.Cost] != want || total[billing.InputTokens] != want {
			t.Fatalf("after %d frames %s and %s, want %s", seq+1, total[billing.Cost], total[billing.InputTokens], want)
		}
	}
	w.ok(frame("ns_b", 1, 1, &UsageRow{HourNs: hourNs + int64(time.Hour), Queue: "q", CostNanoUsd: math.MaxInt64}))
	all := want.Add(money.CountOf(math.MaxInt64))
	for _, by := range []string{"", "queue", "namespace", "day"} {
		q := always("org_acme")
		q.GroupBy = by
		total, groups := w.usage(q)
		sum := billing.Totals{}
		for _, g := range groups {
			sum.Add(g.Totals)
		}
		if total[billing.Cost] != all || by != "" && sum != total {
			t.Errorf("grouped by %q: %s, %v; want %s", by, total[billing.Cost], groups, all)
		}
	}
	checkProjection(t, w.machine)
}

func TestUsageGroups(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	row := func(hours int64, queue, model string, cost int64) *UsageRow {
		return &UsageRow{HourNs: hourNs + hours*int64(time.Hour), Queue: queue, Model: model, Provider: "p-" + model, CostNanoUsd: cost}
	}
	w.ok(
		frame("ns_a", 1, 9, row(0, "q1", "m1", 1), row(0, "q2", "m1", 10), row(30, "q1", "m2", 100)),
		frame("ns_b", 1, 9, row(1, "q1", "m1", 1000), row(2, "", "", 10000)),
		frame("ns_x", 1, 9, row(0, "q1", "m1", 7)),
	)
	query := func(namespace tenancy.NamespaceID, from, to int64, by string) string {
		q := UsageQuery{Org: "org_acme", Namespace: namespace, FromNs: hourNs + from*int64(time.Hour), ToNs: hourNs + to*int64(time.Hour), GroupBy: by}
		total, groups := w.usage(q)
		text := []string{fmt.Sprint(int64(money.Total(total[billing.Cost]).Nano()))}
		for _, g := range groups {
			text = append(text, fmt.Sprintf("%s=%d", g.Key, money.Total(g.Totals[billing.Cost]).Nano()))
		}
		return strings.Join(text, " ")
	}
	for _, c := range []struct {
		namespace tenancy.NamespaceID
		from, to  int64
		by, want  string
	}{
		{"", 0, 100, "", "11111"},
		{"", 0, 100, "namespace", "11111 ns_a=111 ns_b=11000"},
		{"", 0, 100, "queue", "11111 =10000 q1=1101 q2=10"},
		{"", 0, 100, "model", "11111 =10000 m1=1011 m2=100"},
		{"", 0, 100, "provider", "11111 p-=10000 p-m1=1011 p-m2=100"},
		{"", 0, 100, "day", "11111 2023-11-14=11 2023-11-15=11000 2023-11-16=100"},
		{"ns_a", 0, 100, "queue", "111 q1=101 q2=10"},
		{"", 1, 30, "", "11000"}, // from counts, to does not
		{"", 1, 31, "", "11100"},
		{"", 50, 60, "queue", "0"},
		{"", 5, 5, "", "0"},
	} {
		if got := query(c.namespace, c.from, c.to, c.by); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for name, q := range map[string]UsageQuery{
		"minutes":  {Org: "org_acme", FromNs: 1, ToNs: hourNs},
		"backward": {Org: "org_acme", FromNs: hourNs, ToNs: 0},
		"grouping": {Org: "org_acme", GroupBy: "1; DROP TABLE orgs"},
		"nobody":   {},
	} {
		if _, err := w.store().Usage(t.Context(), q); refused(err, api.ValidationError) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, q := range map[string]UsageQuery{
		"another's namespace": {Org: "org_acme", Namespace: "ns_x"},
		"no organisation":     {Org: "org_none"},
		"no namespace":        {Namespace: "ns_none"},
	} {
		if _, err := w.store().Usage(t.Context(), q); refused(err, api.NotFound) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// checkProjection sums the journal and compares it with the projection, row by row. No sum is negative.
func checkProjection(t testing.TB, m *machine) {
	t.Helper()
	type key struct{ namespace, queue, model, provider string }
	read := func(table string) (all []string) {
		err := m.read(t.Context(), func(r reader) error {
			rows, err := r.query("SELECT namespace, hour_ns, queue, model, provider, meter, SUM(quantity >> 31), SUM(quantity & 2147483647) FROM " + table +
				" GROUP BY namespace, hour_ns, queue, model, provider, meter ORDER BY namespace, hour_ns, queue, model, provider, meter")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var k key
				var hour, meter, high, low int64
				if err := rows.Scan(&k.namespace, &hour, &k.queue, &k.model, &k.provider, &meter, &high, &low); err != nil {
					return err
				}
				sum := money.CountOfHalves(high, low)
				if sum.Negative() {
					return fmt.Errorf("the sum of meter %d of %+v in the hour %d is %s", meter, k, hour, sum)
				}
				all = append(all, fmt.Sprint(k, hour, meter, sum))
			}
			return rows.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	journal, projection := read("usage_journal"), read("usage_hourly")
	if !reflect.DeepEqual(journal, projection) {
		t.Fatalf("the journal sums to\n%v\nthe projection is\n%v", journal, projection)
	}
}

// The journal must never change, because bills are checked against it.
func TestJournalIsImmutable(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	w.ok(frame("ns_a", 1, 2, usageRow("q", "m", 5), usageRow("q", "m", 6), usageRow("r\x00s", "m", 6)))
	for _, text := range []string{"UPDATE usage_journal SET cost_nano_usd = 0", "DELETE FROM usage_journal", "UPDATE audit SET principal = 'x'", "DELETE FROM audit"} {
		if _, err := w.db.exec(text); err == nil {
			t.Errorf("%s was done", text)
		}
	}
	checkProjection(t, w.machine)
}

// A frame that is set aside is stored unchanged, its source continues after it, and no sum includes it. Only
// a namespace that is being deleted has such frames.
func TestUsageIsSetAside(t *testing.T) {
	t.Parallel()
	w := usageWorld(t)
	w.ok(frame("ns_a", 1, 2, usageRow("q", "m", 5)))
	w.refused(api.StateConflict, aside("a", 3, 4))
	w.refused(api.NotFound, aside("none", 1, 1))
	w.ok(deletion("a"))
	if refusal := w.refused(api.StateConflict, aside("a", 4, 5)); refusal.Details["last"] != uint64(2) {
		t.Errorf("a gap is refused with %v", refusal.Details)
	}
	if r := do[*SetAsideUsageResult](w, aside("a", 3, 4)); r.Last != 4 {
		t.Errorf("usage is kept up to %d, want 4", r.Last)
	}
	before := w.dump()
	for _, repeat := range []*SetAsideUsage{aside("a", 3, 4), aside("a", 1, 2)} {
		if r := do[*SetAsideUsageResult](w, repeat); r.Last != 4 {
			t.Errorf("a repeat answers %d, want 4", r.Last)
		}
	}
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("a repeat has changed the state: %s", diff)
	}
	if r := do[*ApplyUsageResult](w, frame("ns_a", 3, 4, usageRow("q", "m", 50))); r.Last != 4 { // mended too late: it counts once
		t.Errorf("a frame that was set aside is applied up to %d", r.Last)
	}
	w.ok(frame("ns_a", 5, 5, usageRow("q", "m", 6)), removal("a"), aside("a", 6, 6))
	if total, _ := w.usage(always("org_acme")); money.Total(total[billing.Cost]).Nano() != 11 {
		t.Errorf("used %s, want 11 nano-dollars", total[billing.Cost])
	}
	w.reopen()
	all, err := w.store().AsideUsage(t.Context(), 0, MaxPage)
	source := billing.Source{Namespace: "ns_a", Stream: "shard/0", Incarnation: "aa"}
	want := []AsideUsage{
		{Seq: 7, AtNs: epochNs, Org: "org_acme", Source: source, From: 3, To: 4, Code: "VALIDATION_ERROR", Reason: "rows[0].queue is no text", Bytes: 10},
		{Seq: 9, AtNs: epochNs, Org: "org_acme", Source: source, From: 6, To: 6, Code: "VALIDATION_ERROR", Reason: "rows[0].queue is no text", Bytes: 10},
	}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("set aside is %+v, %v; want %+v", all, err, want)
	}
	if rest, err := w.store().AsideUsage(t.Context(), 7, 1); err != nil || !reflect.DeepEqual(rest, want[1:]) {
		t.Errorf("after the first: %+v, %v", rest, err)
	}
	if one, text, err := w.store().AsideFrame(t.Context(), 7); err != nil || one != want[0] || string(text) != `{"from":3}` {
		t.Errorf("the first: %+v %s, %v", one, text, err)
	}
	if _, _, err := w.store().AsideFrame(t.Context(), 8); refused(err, api.NotFound) != nil {
		t.Errorf("one that is not there: %v", err)
	}
}
