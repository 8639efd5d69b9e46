package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
)

func TestAcknowledgedSurvivesCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range int64(5) {
		n := openNode(t, dir)
		if got := n.machine.counter("k"); got != round*20 {
			t.Fatalf("round %d begins with %d changes, want %d", round, got, round*20)
		}
		for i := range 20 {
			if i == 10 && round%2 == 1 {
				if err := n.Snapshot(); err != nil {
					t.Fatal(err)
				}
			}
			n.add(t, "k")
		}
		n.crash(t)
	}
}

func TestAcknowledgedSurvivesTheLogBeingCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small := func(c *engine.Config) { c.TrailingBytes = -1 }
	n := openNode(t, dir, small)
	filler := strings.Repeat("x", 4<<10)
	for i := range 100 {
		n.add(t, fmt.Sprint(filler, i))
	}
	full, err := n.Status()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Snapshot(); err != nil {
		t.Fatal(err)
	}
	cut, err := n.Status()
	if err != nil {
		t.Fatal(err)
	}
	if cut.LogBytes >= full.LogBytes || cut.Snapshot != n.Applied().Index {
		t.Fatalf("before the snapshot %+v, after it %+v", full, cut)
	}
	n.add(t, "k")
	n.crash(t)

	again := openNode(t, dir, small)
	if got := again.machine.counter("k"); got != 1 {
		t.Errorf("the change after the cut is there %d times", got)
	}
	for i := range 100 {
		if got := again.machine.counter(fmt.Sprint(filler, i)); got != 1 {
			t.Fatalf("change %d before the cut is there %d times", i, got)
		}
	}
}

// TestCrashBetweenFlushAndManifest stops the process after the machine was flushed and before the manifest is
// written.
func TestCrashBetweenFlushAndManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, dir)
	n.add(t, "k")
	blocked := filepath.Join(dir, "manifest.json.tmp")
	n.machine.mu.Lock()
	n.machine.onFlush = func() {
		if err := os.Mkdir(blocked, 0o755); err != nil {
			t.Error(err)
		}
	}
	n.machine.mu.Unlock()
	wantCode(t, n.Snapshot(), api.Unhealthy)
	wantCode(t, n.Err(), api.Unhealthy)
	n.shut(t)
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); !os.IsNotExist(err) {
		t.Fatalf("there is a manifest: %v", err)
	}

	again := openNode(t, dir)
	if got := again.machine.counter("k"); got != 1 {
		t.Errorf("the change is there %d times", got)
	}
	again.add(t, "k")
	if err := again.Snapshot(); err != nil {
		t.Fatal(err)
	}
}

// TestFailedFlushStopsTheGroup checks that no acknowledged entry is truncated from the log when Flush fails.
func TestFailedFlushStopsTheGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, dir)
	n.add(t, "k")
	n.machine.crash()
	wantCode(t, n.Snapshot(), api.Unhealthy)
	_, _, err := engine.Propose[int64](t.Context(), n.Group, add("k"))
	wantCode(t, err, api.Unhealthy)
	n.shut(t)
	if got := openNode(t, dir).machine.counter("k"); got != 1 {
		t.Errorf("the change is there %d times", got)
	}
}

func TestLogStaysBoundedUnderLoad(t *testing.T) {
	t.Parallel()
	const limit, trailing = 512 << 10, 128 << 10
	dir := t.TempDir()
	n := openNode(t, dir, func(c *engine.Config) { c.SnapshotBytes, c.TrailingBytes = limit, trailing })
	filler := strings.Repeat("x", 8<<10)
	most := int64(0)
	for range 1000 { // 8 MiB, sixteen times the limit
		n.add(t, filler)
		s, err := n.Status()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, s.LogBytes)
	}
	// More is appended while a snapshot is taken, and only whole segments are truncated.
	if bound := int64(2*limit + trailing + 4*64<<10); most > bound {
		t.Errorf("the log grew to %d bytes, the bound is %d", most, bound)
	}
	n.crash(t)
	again := openNode(t, dir, func(c *engine.Config) { c.SnapshotBytes, c.TrailingBytes = limit, trailing })
	if got := again.machine.counter(filler); got != 1000 {
		t.Errorf("%d changes found, want 1000", got)
	}
}

// TestLogStaysBoundedOverRestarts checks that the log is truncated even if the group is opened often and
// writes little.
func TestLogStaysBoundedOverRestarts(t *testing.T) {
	t.Parallel()
	const limit = 256 << 10
	dir := t.TempDir()
	most := int64(0)
	for range 20 {
		n := openNode(t, dir, func(c *engine.Config) { c.SnapshotBytes, c.TrailingBytes = limit, -1 })
		for range 6 {
			n.add(t, strings.Repeat("x", 8<<10))
		}
		s, err := n.Status()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, s.LogBytes)
		n.shut(t)
	}
	if most > 2*limit {
		t.Errorf("the log grew to %d bytes over restarts", most)
	}
}

// replace puts an earlier copy of a file in its place.
func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOpenRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		harm func(t *testing.T, dir string, older []byte)
		want string
	}{
		{"store put back to an older state", func(t *testing.T, dir string, older []byte) {
			replace(t, filepath.Join(dir, "machine.dat"), older)
		}, "what lay between is lost"},
		{"store lost", func(t *testing.T, dir string, _ []byte) {
			if err := os.Remove(filepath.Join(dir, "machine.dat")); err != nil {
				t.Fatal(err)
			}
		}, "what lay between is lost"},
		{"log and manifest lost", func(t *testing.T, dir string, _ []byte) {
			for _, name := range []string{"log", "manifest.json"} {
				if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, "the log ends at entry 0"},
		{"manifest damaged", func(t *testing.T, dir string, _ []byte) {
			replace(t, filepath.Join(dir, "manifest.json"), []byte("{"))
		}, "the snapshot manifest in"},
		{"identity lost", func(t *testing.T, dir string, _ []byte) {
			if err := os.Remove(filepath.Join(dir, "group.json")); err != nil {
				t.Fatal(err)
			}
		}, "but no group.json"},
		{"another history", func(t *testing.T, dir string, _ []byte) {
			path := filepath.Join(dir, "group.json")
			other := regexp.MustCompile(`"incarnation": "[0-9a-f]*"`).
				ReplaceAllLiteralString(string(read(t, path)), `"incarnation": "000102030405060708090a0b0c0d0e0f"`)
			replace(t, path, []byte(other))
		}, "the log to group \"test/0\", history 000102"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			n := openNode(t, dir)
			n.add(t, "k")
			if err := n.Snapshot(); err != nil {
				t.Fatal(err)
			}
			older := read(t, filepath.Join(dir, "machine.dat"))
			n.add(t, "k")
			if err := n.Snapshot(); err != nil {
				t.Fatal(err)
			}
			n.add(t, "k")
			n.shut(t)
			test.harm(t, dir, older)
			_, err := tryOpenNode(t, dir)
			wantCode(t, err, api.Unhealthy)
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("refused with %q, want it to say %q", err, test.want)
			}
		})
	}
}

func TestFoundingCutShortIsRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := openNode(t, dir)
	n.crash(t)
	path := filepath.Join(dir, "group.json")
	replace(t, path, []byte(strings.Replace(string(read(t, path)), `"founded": true`, `"founded": false`, 1)))
	openNode(t, dir).add(t, "k")
}

// TestClockNeverFalls sets the wall clock back by an hour at the second start, and by two at the third.
func TestClockNeverFalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last := int64(0)
	for round := range 3 {
		n := openNode(t, dir, func(c *engine.Config) {
			c.Now = func() time.Time { return time.Now().Add(-time.Duration(round) * time.Hour) }
		})
		for range 5 {
			n.add(t, "k")
		}
		n.machine.mu.Lock()
		clocks := n.machine.clocks
		n.machine.mu.Unlock()
		if round%2 == 0 {
			n.crash(t) // the next start must read the clock from the log
		} else {
			n.shut(t)
		}
		for _, c := range clocks[len(clocks)-6:] {
			if c < last {
				t.Fatalf("round %d: clock %d after %d", round, c, last)
			}
			last = c
		}
	}
}
