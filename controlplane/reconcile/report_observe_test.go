package reconcile

import (
	"strings"
	"testing"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
)

// numbered returns a report with cells that are open, in the form of their names.
func numbered(sequence, base int64, cells string) wire.Report {
	r := wire.Report{Sequence: sequence, Base: base}
	for _, ns := range strings.Fields(cells) {
		r.Cells = append(r.Cells, wire.CellReport{Namespace: ns, Generation: 1, State: wire.Opened})
	}
	return r
}

func more(r wire.Report) wire.Report {
	r.More = true
	return r
}

func ended(r wire.Report, namespaces ...string) wire.Report {
	r.Ended = namespaces
	return r
}

// A report is taken if it is full or continues the last one that was taken from the same process in the same term. A
// repeat changes nothing. Any other is answered with the request for a full one, and changes nothing.
func TestReportsAreAChain(t *testing.T) {
	t.Parallel()
	o := NewObservations(time.Now, HostGrace)
	for _, c := range []struct {
		when      string
		term      uint64
		run       int64
		report    wire.Report
		full      bool
		has, news string
	}{
		{"a delta at first", 1, 1, numbered(2, 1, "a"), true, "", ""},
		{"a full report", 1, 1, numbered(3, 0, "a b"), false, "ab", "ab"},
		{"a delta", 1, 1, numbered(4, 3, "c"), false, "abc", "c"},
		{"the delta again", 1, 1, numbered(4, 3, "c"), false, "abc", ""},
		{"an end", 1, 1, ended(numbered(5, 4, ""), "b", "nobody"), false, "ac", ""},
		{"the earlier delta again", 1, 1, numbered(4, 3, "c"), true, "ac", ""},
		{"an older full report", 1, 1, numbered(2, 0, "x"), true, "ac", ""},
		{"a delta on one that was lost", 1, 1, numbered(7, 6, "d"), true, "ac", ""},
		{"a delta of another process", 1, 2, numbered(6, 5, "d"), true, "ac", ""},
		{"the full report of another process", 1, 2, numbered(1, 0, "a c"), false, "ac", ""},
		{"a late delta of the first process", 1, 1, numbered(2, 1, "x"), true, "ac", ""},
		{"a late full report of the first process", 1, 1, numbered(9, 0, "x"), true, "ac", ""},
		{"a part of a full report", 1, 2, more(numbered(2, 0, "a e")), false, "ac", ""},
		{"another part", 1, 2, more(numbered(3, 2, "f")), false, "ac", ""},
		{"the part again", 1, 2, more(numbered(3, 2, "f")), false, "ac", ""},
		{"a new begin", 1, 2, more(numbered(4, 0, "a")), false, "ac", ""},
		{"the last part", 1, 2, numbered(5, 4, "g"), false, "ag", "g"},
		{"a delta that says to be a part", 1, 2, more(numbered(6, 5, "h")), true, "ag", ""},
		{"a delta in another term", 2, 2, numbered(7, 5, "h"), true, "", ""},
		{"a part in another term", 2, 2, more(numbered(8, 0, "a")), false, "", ""},
		{"the next part a term later", 3, 2, numbered(9, 8, "g"), true, "", ""},
		{"a full report in another term", 3, 2, numbered(10, 0, "a g"), false, "ag", "ag"},
		{"a report of an earlier term", 2, 2, numbered(11, 0, "h"), true, "ag", ""},
	} {
		full, err := o.Observe(c.term, "h", c.run, c.report)
		if full != c.full || err != nil {
			t.Errorf("%s: a full report is wanted: %v, %v", c.when, full, err)
		}
		var has, news string
		seen := o.News()
		for _, ns := range strings.Split("abcdefghx", "") {
			if o.Cell("h", ns).State != "" {
				has += ns
			}
			if seen[ns] {
				news += ns
			}
		}
		if has != c.has || news != c.news {
			t.Errorf("%s: the host has %q with news of %q, want %q and %q", c.when, has, news, c.has, c.news)
		}
	}
}

// A host counts as alive by a delta without cells, and neither by a delta that is refused nor by a part of a full report.
func TestAliveByDeltas(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	o := NewObservations(func() time.Time { return now }, HostGrace)
	for _, c := range []struct {
		when   string
		report wire.Report
		alive  bool
	}{
		{"a delta on an unknown report", numbered(2, 1, ""), false},
		{"a part", more(numbered(3, 0, "a")), false},
		{"the last part", numbered(4, 3, ""), true},
		{"an empty delta", numbered(5, 4, ""), true},
		{"that delta again", numbered(5, 4, ""), false},
		{"a delta on a lost one", numbered(7, 6, ""), false},
	} {
		if _, err := o.Observe(1, "h", 1, c.report); err != nil {
			t.Fatal(err)
		}
		if o.Alive("h") != c.alive {
			t.Errorf("after %s the host is alive: %v", c.when, !c.alive)
		}
		now = now.Add(AliveLimit + 1)
	}
}

// A cell is lasting although deltas leave it out, and although a full report repeats it.
func TestLastingThroughDeltas(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	o := NewObservations(func() time.Time { return now }, HostGrace)
	for _, r := range []wire.Report{numbered(1, 0, "a"), numbered(2, 1, "b"), numbered(3, 0, "a b")} {
		if full, err := o.Observe(1, "h", 1, r); full || err != nil {
			t.Fatalf("report %d: %v, %v", r.Sequence, full, err)
		}
		now = now.Add(AliveLimit / 2)
	}
	if !o.Cell("h", "a").Lasting || o.Cell("h", "b").Lasting {
		t.Error("the cell of the first report is not lasting, or that of the second is")
	}
}
