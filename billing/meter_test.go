package billing

import (
	"fmt"
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
		err := f.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
