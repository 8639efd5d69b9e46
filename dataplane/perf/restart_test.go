//go:build unix

package perf_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/raftlog"
)

// restart holds the figures of reopening a node that has jobs.
type restart struct {
	open        time.Duration // until it accepts writes
	entries     uint64        // log entries that were replayed
	bytes       int64         // and their bytes
	behind      uint64        // events that the view had not seen when the node opened
	viewCurrent time.Duration // from the opening until it had seen them
}

// TestMeasureRestart reopens a node with many jobs after it was closed, and after it was killed while it
// worked, for "Restart" in docs/benchmarks.md:
//
//	go test ./dataplane/perf -run TestMeasureRestart -v -timeout 60m -measure.rounds=5
//
// It fills the node first; with a million jobs everything takes about four minutes. The files are in the page
// cache.
func TestMeasureRestart(t *testing.T) {
	skipUnless(t, *rounds, "measure.rounds")
	base := t.TempDir()
	ns := openNodesIn(t, base, 1, engine.Tuning{})
	m := ns.all[0]
	begun := time.Now()
	fillMixed(t, m.Cells()[0], *heldJobs)
	t.Logf("%d jobs made in %v", *heldJobs, time.Since(begun).Round(time.Second))
	ns.shut(m)

	after := map[string][]restart{}
	for range *rounds {
		after["a close"] = append(after["a close"], ns.reopen(m))
	}
	for range *rounds {
		workAndDie(t, base)
		after["kill -9"] = append(after["kill -9"], ns.reopen(m))
	}
	rows := [][]string{{"after", "takes writes", "most", "log replayed", "entries", "view behind by", "view current"}}
	for _, how := range []string{"a close", "kill -9"} {
		all := after[how]
		of := func(f func(restart) float64) float64 { return median(all, f) }
		most := time.Duration(0)
		for _, r := range all {
			t.Logf("after %s: %+v", how, r)
			most = max(most, r.open)
		}
		rows = append(rows, []string{how,
			millis(time.Duration(of(func(r restart) float64 { return float64(r.open) }))), millis(most),
			mebibytes(int64(of(func(r restart) float64 { return float64(r.bytes) }))) + " MiB",
			fmt.Sprint(int(of(func(r restart) float64 { return float64(r.entries) }))),
			fmt.Sprintf("%d events", int(of(func(r restart) float64 { return float64(r.behind) }))),
			millis(time.Duration(of(func(r restart) float64 { return float64(r.viewCurrent) }))),
		})
	}
	printTable(fmt.Sprintf("Restart with %d jobs, medians of %d; data: %s MiB of state, %s of view, %s of log", *heldJobs, *rounds,
		mebibytes(sizeOf(m.shardDir(), "state")), mebibytes(sizeOf(m.shardDir(), "view")), mebibytes(sizeOf(m.shardDir(), "raft", "log"))), rows...)
}

// reopen opens a node and closes it again.
func (ns *nodes) reopen(m *member) (r restart) {
	ns.t.Helper()
	r.entries, r.bytes = toReplay(ns.t, m.shardDir())
	begun := time.Now()
	ns.open(m)
	r.open = time.Since(begun)
	c := m.Cells()[0]
	r.behind, _ = c.View().Lag()
	if err := lifecycle(c, 0); err != nil {
		ns.t.Fatal(err)
	}
	current(ns.t, c)
	r.viewCurrent = time.Since(begun)
	ns.shut(m)
	return r
}

// toReplay returns the number and size of the log entries of a closed shard that its store lacks.
func toReplay(t testing.TB, dir string) (entries uint64, bytes int64) {
	t.Helper()
	store, err := state.Open(filepath.Join(dir, "state"), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	applied := store.Applied().Index
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := (&raftlog.Factory{Logger: hclog.NewNullLogger()}).Open(filepath.Join(dir, "raft", "log"), raftlog.WAL)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	last, err := log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for i := applied + 1; i <= last; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			t.Fatal(err)
		}
		entries, bytes = entries+1, bytes+int64(len(l.Data))
	}
	return entries, bytes
}

const (
	workIn  = "CORVO_MEASURE_WORK_IN" // directory of the process that is to be killed
	working = "it works"
)

// workAndDie starts another process, which opens the node and works. It kills the process while it works,
// once the log since the last snapshot is long enough.
func workAndDie(t *testing.T, base string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestMeasureWork$", "-test.timeout=10m", fmt.Sprintf("-measure.replay=%d", *unflushed))
	child.Env = append(os.Environ(), workIn+"="+base)
	child.Stderr = os.Stderr
	alive, err := child.StdinPipe() // the child's input ends when this process ends
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	said, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	works := false
	for lines := bufio.NewScanner(said); !works && lines.Scan(); {
		if works = lines.Text() == working; !works && strings.TrimSpace(lines.Text()) != "" {
			t.Log(lines.Text())
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if !works {
		t.Fatal("the process that was to be killed has not worked")
	}
}

// TestMeasureWork runs in the process that workAndDie starts.
func TestMeasureWork(t *testing.T) {
	base := os.Getenv(workIn)
	if base == "" {
		t.Skip("part of TestMeasureRestart")
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	c := openNodesIn(t, base, 1, engine.Tuning{}).all[0].Cells()[0]
	l := startLoad(64, func(caller int) error { return lifecycle(c, caller) })
	if *unflushed > 0 {
		perJob := 0
		for _, o := range lifecycleBytes(t) {
			perJob += len(o)
		}
		for first := snapshotOf(t, c.Engine()); snapshotOf(t, c.Engine()) == first; {
			time.Sleep(2 * time.Millisecond)
		}
		for until := l.done.Load() + int64(*unflushed<<20/perJob); l.done.Load() < until; {
			time.Sleep(2 * time.Millisecond)
		}
	} else {
		time.Sleep(time.Second)
	}
	fmt.Println("\n" + working)
	<-context.Background().Done() // works until it is killed
}

// snapshotOf returns the log index of a group's newest snapshot.
func snapshotOf(t testing.TB, g *engine.Group) uint64 {
	t.Helper()
	s, err := g.Status()
	if err != nil {
		t.Fatal(err)
	}
	return s.Snapshot
}
