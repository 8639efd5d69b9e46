package replica

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	m := new(tape)
	r, term := run(t, t.TempDir(), m, bootstrapped(t, m))
	results, at, err := r.Append(term, encode(t, ours.Incarnation, 50, "a", "b")).Wait()
	if err != nil || fmt.Sprint(results) != "[a b]" {
		t.Fatalf("results %v, %v", results, err)
	}
	if at != m.Applied().Position() || at.Term != term {
		t.Fatalf("appended at %+v in term %d, applied are %+v", at, term, m.Applied().Position())
	}
	if clock, err := r.LastClock(); err != nil || clock != 50 {
		t.Errorf("last clock %d, %v", clock, err)
	}
	if err := <-r.Verify(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.Append(term, nil).Wait()
	if api.CodeOf(err) != api.LeaderUnavailable {
		t.Errorf("after close: %v", err)
	}
}

// TestStaleEntryIsEmpty appends an entry proposed in an earlier term. It must take its index in the log,
// change nothing, and be answered as not written.
func TestStaleEntryIsEmpty(t *testing.T) {
	t.Parallel()
	m := new(tape)
	r, term := run(t, t.TempDir(), m, bootstrapped(t, m))
	if _, _, err := r.Append(term, encode(t, ours.Incarnation, 5)).Wait(); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.Append(term-1, encode(t, ours.Incarnation, 1, "stale")).Wait()
	if api.CodeOf(err) != api.LeaderUnavailable || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("stale entry: %v", err)
	}
	if got := m.LastClock(); got != 5 {
		t.Errorf("the clock fell from 5 to %d", got)
	}
	_, at, err := r.Append(term, encode(t, ours.Incarnation, 6, "good")).Wait()
	if err != nil || fmt.Sprint(m.now.Ops) != "[good]" || m.Applied().Index != at.Index {
		t.Errorf("applied %v up to %d, %v", m.now.Ops, m.Applied().Index, err)
	}
	if err := r.Snapshot(); err != nil {
		t.Error(err)
	}
}

func TestStops(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entry func(t *testing.T) []byte
		harm  func(m *tape, log *memory)
	}{
		"apply fails":       {harm: func(m *tape, _ *memory) { m.applyErr = errors.New("bad key") }},
		"log write fails":   {harm: func(_ *tape, log *memory) { log.breakWith(errors.New("disk full")) }},
		"entry damaged":     {entry: func(*testing.T) []byte { return []byte("no entry") }},
		"another history":   {entry: func(t *testing.T) []byte { return encode(t, theirs.Incarnation, 1, "a") }},
		"an op unanswered":  {harm: func(m *tape, _ *memory) { m.forgets = true }},
		"machine was ahead": {harm: func(m *tape, _ *memory) { m.now.At.Index += 100 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := new(tape)
			log := bootstrapped(t, m)
			r, term := run(t, t.TempDir(), m, log)
			if _, _, err := r.Append(term, encode(t, ours.Incarnation, 1, "before")).Wait(); err != nil {
				t.Fatal(err)
			}
			if test.harm != nil {
				m.mu.Lock()
				test.harm(m, log)
				m.mu.Unlock()
			}
			data := encode(t, ours.Incarnation, 1, "a", "b")
			if test.entry != nil {
				data = test.entry(t)
			}
			futures := []*Future{r.Append(term, data)}
			for range 5 {
				futures = append(futures, r.Append(term, encode(t, ours.Incarnation, 1, "after")))
			}
			for _, f := range futures {
				if _, _, err := f.Wait(); api.CodeOf(err) != api.Unhealthy {
					t.Errorf("answered %v", err)
				}
			}
			<-r.Failed()
			if r.Err() == nil {
				t.Error("no reason")
			}
			if err := <-r.Verify(); api.CodeOf(err) != api.Unhealthy {
				t.Errorf("verify: %v", err)
			}
			if err := r.Snapshot(); api.CodeOf(err) != api.Unhealthy {
				t.Errorf("snapshot: %v", err)
			}
			if got := fmt.Sprint(m.now.Ops); strings.Contains(got, "after") {
				t.Errorf("went on: applied %s", got)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnwritableTermStopsTheReplica checks that the failure stops the replica and not the process.
func TestUnwritableTermStopsTheReplica(t *testing.T) {
	t.Parallel()
	m := new(tape)
	log := bootstrapped(t, m)
	log.breakWith(errors.New("disk full"))
	r, err := Open(Config{Dir: t.TempDir(), Group: ours.Group, Incarnation: ours.Incarnation, ID: "one", Machine: m, Log: log, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		<-r.Failed()
		err = r.Err()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(err.Error(), "disk full") {
		t.Errorf("stopped by %v", err)
	}
}

func TestOpenRefusesAGapToReplay(t *testing.T) {
	t.Parallel()
	m := new(tape)
	log := bootstrapped(t, m)
	if err := log.StoreLogs([]*raft.Log{{Index: 2, Term: 2}, {Index: 4, Term: 2}}); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Dir: t.TempDir(), Group: ours.Group, ID: "one", Machine: m, Log: log})
	if api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), "entry 3 of the log cannot be read") {
		t.Errorf("opened over a gap: %v", err)
	}
}

func TestOpenRefusesFallingTerms(t *testing.T) {
	t.Parallel()
	m := new(tape)
	log := bootstrapped(t, m)
	if err := log.StoreLogs([]*raft.Log{{Index: 2, Term: 3}, {Index: 3, Term: 2}}); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Dir: t.TempDir(), Group: ours.Group, ID: "one", Machine: m, Log: log})
	if api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), "of term 2") {
		t.Errorf("opened over falling terms: %v", err)
	}
}

func TestFoundNeedsAnEmptyMachineAndLog(t *testing.T) {
	t.Parallel()
	m := &tape{now: taped{At: at(ours, 3, 1)}}
	if err := Bootstrap(newMemory(), "one", "one", m); api.CodeOf(err) != api.Unhealthy {
		t.Errorf("founded on a used machine: %v", err)
	}
	used := bootstrapped(t, new(tape))
	if err := Bootstrap(used, "one", "one", new(tape)); err == nil {
		t.Error("founded twice")
	}
}

// TestLastClockLooksIntoTheLog puts the newest clock only into the log, before entries of other kinds.
func TestLastClockLooksIntoTheLog(t *testing.T) {
	t.Parallel()
	log := newMemory()
	logs := []*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration},
		{Index: 2, Term: 1, Type: raft.LogCommand, Data: encode(t, ours.Incarnation, 20)},
		{Index: 3, Term: 1, Type: raft.LogCommand, Data: encode(t, ours.Incarnation, 30)},
		{Index: 4, Term: 2, Type: raft.LogNoop},
		{Index: 5, Term: 3, Type: raft.LogNoop},
	}
	if err := log.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	for applied, want := range map[uint64]int64{0: 30, 2: 30, 3: 31, 5: 31} {
		m := &tape{now: taped{At: at(ours, applied, 1), ClockNs: 31}}
		j, err := newJournal(log, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &Replica{machine: m, journal: j}
		if got, err := r.LastClock(); err != nil || got != want {
			t.Errorf("machine at %d: %d, %v, want %d", applied, got, err, want)
		}
	}
}

func TestLoggerKeepsDailyLifeDown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))).Named("raft").With("node", 1)
	l.Info("entering leader state", "term", 2)
	l.Warn("heartbeat timeout")
	l.Error("it broke", "error", errors.New("disk"))
	want := `level=DEBUG msg="raft: entering leader state" node=1 term=2
level=INFO msg="raft: heartbeat timeout" node=1
level=ERROR msg="raft: it broke" node=1 error=disk
`
	if out.String() != want {
		t.Errorf("logged\n%swant\n%s", out.String(), want)
	}
}

func TestJournalMeasures(t *testing.T) {
	t.Parallel()
	j, err := newJournal(newMemory(), 1<<20, func(error) { t.Error("failed") })
	if err != nil {
		t.Fatal(err)
	}
	const size = 32<<10 - entryOverhead
	due := func() bool {
		select {
		case <-j.due:
			return true
		default:
			return false
		}
	}
	for i := uint64(1); i <= 32; i++ { // exactly 1 MiB
		if due() {
			t.Fatalf("due before entry %d", i)
		}
		if err := j.StoreLog(&raft.Log{Index: i, Data: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	if !due() || j.sinceSnapshot() != 1<<20 {
		t.Errorf("not due at %d bytes", j.sinceSnapshot())
	}
	for _, test := range []struct {
		bytes     int64
		low, high uint64
	}{{0, 1, 1}, {64 << 10, 2, 4}, {512 << 10, 16, 18}, {1 << 30, 32, 32}} {
		if got := j.trailing(32, test.bytes); got < test.low || got > test.high {
			t.Errorf("%d bytes are %d entries, want %d to %d", test.bytes, got, test.low, test.high)
		}
	}
	j.cutAt(16)
	if got := j.sinceSnapshot(); got < 16*32<<10 || got > 16*32<<10+markBytes {
		t.Errorf("cut in the middle, %d bytes since", got)
	}
	if err := j.DeleteRange(1, 16); err != nil {
		t.Fatal(err)
	}
	if got := j.trailing(32, 1<<30); got > 16 {
		t.Errorf("%d entries are kept, 16 are left", got)
	}
}
