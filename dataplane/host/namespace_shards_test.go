package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// ready opens a namespace, waits until it takes writes, and returns its cells.
func ready(t *testing.T, h *Host, ns tenancy.NamespaceID, spec Spec) []*cell.Cell {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := h.Add(ctx, ns, spec); err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(ctx, ns); err != nil {
		t.Fatal(err)
	}
	cells, err := h.Cells(ns)
	if err != nil {
		t.Fatal(err)
	}
	return cells
}

// TestTheNumberOfShardsIsForEver checks that a namespace is opened only with the number of shards it was
// founded with.
func TestTheNumberOfShardsIsForEver(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	for i, c := range ready(t, h, "a", Spec{Shards: 2}) {
		if c.Shard() != uint32(i) {
			t.Errorf("cell %d is of shard %d", i, c.Shard())
		}
	}
	if err := h.Shut(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, other := range []int{1, 3} {
		err := h.Add(t.Context(), "a", Spec{Shards: other})
		if api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), "start with 2") {
			t.Errorf("with %d shards: %v, want %s and what to do", other, err, api.Conflict)
		}
	}
	if got := len(ready(t, h, "a", Spec{})); got != 2 {
		t.Errorf("opened as it is it has %d shards, want 2", got)
	}
	if got := len(ready(t, h, "b", Spec{})); got != 1 {
		t.Errorf("a new namespace has %d shards, want 1", got)
	}
	// A deleted namespace is new when it is added again.
	if err := h.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := len(ready(t, h, "a", Spec{Shards: 3})); got != 3 {
		t.Errorf("founded anew it has %d shards, want 3", got)
	}
}

// TestADamagedRecordIsRefused checks that the host refuses a damaged record and does not replace it.
func TestADamagedRecordIsRefused(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	for _, text := range []string{"", "{}", `{"shards":65}`, `{"shards":-1}`, `{"shards":2,"join":["00000000000000000000000000000000"]}`, `{"shards":1,"join":["x"]}`} {
		if err := os.MkdirAll(h.dir("a"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.dir("a"), shardsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.Add(t.Context(), "a", Spec{}); err == nil {
			t.Errorf("opened by %q", text)
		}
	}
}

func TestSpecsThatCannotBe(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	for _, spec := range []Spec{{Shards: -1}, {Shards: MaxShards + 1}, {Shards: 2, Join: make([]entry.Incarnation, 1)},
		{Shards: 2, Incarnations: make([]entry.Incarnation, 1)}, {Incarnations: make([]entry.Incarnation, MaxShards+1)}} {
		if err := h.Add(t.Context(), "a", spec); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%+v: %v, want %s", spec, err, api.ValidationError)
		}
	}
	if all, err := h.OnDisk(); err != nil || len(all) > 0 {
		t.Errorf("they left %v, %v", all, err)
	}
}

// TestAMemberToBeOpensAndIsNotReady checks that the host records the groups that a namespace joins: after a
// restart its shards join the same groups and found none. The test clears cell.Config.Join, because no leader
// would ever add the cells.
func TestAMemberToBeOpensAndIsNotReady(t *testing.T) {
	t.Parallel()
	var joins []*entry.Incarnation
	h := openHost(t, Config{open: func(c cell.Config) (*cell.Cell, error) {
		joins = append(joins, c.Join)
		c.Join = nil
		return cell.Open(c)
	}})
	groups := []entry.Incarnation{{1}, {2}}
	ready(t, h, "a", Spec{Shards: 2, Join: groups})
	if err := h.Shut(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	ready(t, h, "a", Spec{})
	var joined []entry.Incarnation
	for _, group := range joins {
		joined = append(joined, *group)
	}
	if want := slices.Concat(groups, groups); !slices.Equal(joined, want) {
		t.Errorf("joined %v, want both groups twice: %v", joined, want)
	}
}

// TestShardsCountAgainstTheBound checks that MaxCells counts shards, because each shard has a cost.
func TestShardsCountAgainstTheBound(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{MaxCells: 3})
	ready(t, h, "a", Spec{Shards: 2})
	if err := h.Add(t.Context(), "b", Spec{Shards: 2}); api.CodeOf(err) != api.Overloaded {
		t.Errorf("a third and fourth of 3: %v, want %s", err, api.Overloaded)
	}
	ready(t, h, "c", Spec{Shards: 1})
}

// TestAllShardsOpenOrNone checks that no shard of a namespace stays open if one of them cannot be opened.
func TestAllShardsOpenOrNone(t *testing.T) {
	t.Parallel()
	broken := true
	h := openHost(t, Config{open: func(c cell.Config) (*cell.Cell, error) {
		if broken && c.Shard == 1 {
			return nil, api.Errorf(api.Unhealthy, "the log is damaged")
		}
		return cell.Open(c)
	}})
	if err := h.Add(t.Context(), "a", Spec{Shards: 2}); api.CodeOf(err) != api.Unhealthy {
		t.Errorf("%v, want %s", err, api.Unhealthy)
	}
	if _, err := h.Cells("a"); err == nil {
		t.Error("it is open")
	}
	broken = false
	ready(t, h, "a", Spec{Shards: 2}) // the first shard was closed again: its lock is free
}

// TestPollsWakeOnAnyShard checks that a job wakes a poll on each of the shards.
func TestPollsWakeOnAnyShard(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	cells := ready(t, h, "a", Spec{Shards: 2})
	for _, c := range cells {
		parked := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			parked <- h.Park(ctx, "a", []string{"none", "q"}, func() error { return nil })
		}()
		deadline := time.Now().Add(patience)
		for polls, err := h.Polls("a"); err != nil || polls.Parked == 0; polls, err = h.Polls("a") {
			if time.Now().After(deadline) {
				t.Fatalf("the poll does not park: %v", err)
			}
			time.Sleep(time.Millisecond)
		}
		if _, err := enqueue(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := <-parked; err != nil {
			t.Errorf("parked for a job on shard %d: %v", c.Shard(), err)
		}
		claimed, release := c.Claim([]string{"q"}, 10) // so that the next poll waits
		if claimed != 1 {
			t.Errorf("%d jobs of shard %d can be claimed", claimed, c.Shard())
		}
		t.Cleanup(release)
	}
}
