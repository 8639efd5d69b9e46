package view

import (
	"context"
	"strings"
	"testing"
)

// TestDumpHasEachRowOnce checks that a dump names no table twice and holds the rows of a view.
func TestDumpHasEachRowOnce(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("once", 1)
	h.settle()
	var dump strings.Builder
	must(t, h.view.Dump(context.Background(), &dump))
	if !strings.Contains(dump.String(), "once") {
		t.Errorf("the dump lacks a queue:\n%s", &dump)
	}
	seen := map[string]bool{}
	for _, d := range dumped {
		if seen[d.table] {
			t.Errorf("table %s is dumped twice", d.table)
		}
		seen[d.table] = true
	}
}
