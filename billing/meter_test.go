package billing

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// TestMetersAreAsDocumented compares the meters with the table for operators. A number that has been given is in journals, so
// that a line of that table never changes its number.
func TestMetersAreAsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/cloud.md")
	if err != nil {
		t.Fatal(err)
	}
	var table []string
	names := map[string]bool{}
	for m, d := range Meters {
		if m == 0 {
			continue
		}
		if d.Meter != Meter(m) || names[d.Name] || d.Unit == "" || d.By == "" || d.About == "" {
			t.Errorf("meter %d is defined as %+v", m, d)
		}
		names[d.Name] = true
		table = append(table, fmt.Sprintf("| %d | `%s` | %s | %s | %s |", m, d.Name, d.Unit, d.By, d.About))
	}
	if want := strings.Join(table, "\n"); !strings.Contains(string(text), "|---|---|---|---|---|\n"+want+"\n\n") {
		t.Errorf("docs/cloud.md does not have the table\n%s", want)
	}
}

// TestFrameOfMeters checks which rows a frame may have.
func TestFrameOfMeters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		row    Row
		says   string
	}{
		"a shard's meter":     {"shard/0", Row{Meter: InputTokens, Quantity: 1}, ""},
		"a gateway's meter":   {"gateway/host_1", Row{Meter: Requests, Quantity: 1}, ""},
		"nothing":             {"shard/0", Row{Meter: InputTokens}, ""},
		"negative":            {"shard/0", Row{Meter: InputTokens, Quantity: -1}, "negative"},
		"no meter":            {"shard/0", Row{Quantity: 1}, "meter 0, which this version does not know"},
		"a later meter":       {"shard/0", Row{Meter: metersEnd, Quantity: 1}, "upgrade the control plane"},
		"tokens of a gateway": {"gateway/host_1", Row{Meter: InputTokens, Quantity: 1}, "which only a shard counts"},
		"requests of a shard": {"shard/0", Row{Meter: Requests, Quantity: 1}, "which only a gateway counts"},
		"another stream":      {"other", Row{Meter: Requests, Quantity: 1}, `stream "other"`},
	} {
		f := Frame{Source: Source{Namespace: "n", Stream: c.stream, Incarnation: "i"}, From: 1, To: 1, Rows: []Row{c.row}}
		f.Hash = HashRows(f.Rows)
		err := f.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHashOfRows checks the permanent form of the hash of rows, and that a frame is refused if anything in a row, or their
// order, has changed.
func TestHashOfRows(t *testing.T) {
	t.Parallel()
	rows := func() []Row {
		return []Row{
			{Dimensions{HourNs: 3_600_000_000_000, Queue: "mail", Model: "m", Provider: "p"}, InputTokens, math.MaxInt64},
			{Dimensions{HourNs: 3_600_000_000_000}, Reports, 1},
		}
	}
	frame := Frame{Source: Source{Namespace: "n", Stream: "shard/0", Incarnation: "i"}, From: 1, To: 2, Hash: HashRows(rows())}
	if want := "ec1dc4a508f5a2be7436f181346e56e763237fab17701677639b63eaa010fdda"; frame.Hash != want {
		t.Errorf("the hash is %s, want %s", frame.Hash, want)
	}
	for name, change := range map[string]func([]Row) []Row{
		"hour":         func(r []Row) []Row { r[0].HourNs *= 2; return r },
		"queue":        func(r []Row) []Row { r[0].Queue = "mai"; return r },
		"model":        func(r []Row) []Row { r[0].Queue, r[0].Model = "mailm", ""; return r },
		"provider":     func(r []Row) []Row { r[0].Model, r[0].Provider = "mp", ""; return r },
		"meter":        func(r []Row) []Row { r[0].Meter = OutputTokens; return r },
		"quantity":     func(r []Row) []Row { r[1].Quantity = 2; return r },
		"order":        func(r []Row) []Row { return []Row{r[1], r[0]} },
		"fewer":        func(r []Row) []Row { return r[:1] },
		"more":         func(r []Row) []Row { return append(r, r[1]) },
		"nothing else": func(r []Row) []Row { return r },
	} {
		frame.Rows = change(rows())
		if err := frame.Validate(); (err == nil) != (name == "nothing else") || err != nil && !strings.Contains(err.Error(), "rows_sha256") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	frame.Rows, frame.Hash = rows(), strings.ToUpper(frame.Hash)
	if err := frame.Validate(); err == nil {
		t.Error("a hash in upper case is taken")
	}
}
