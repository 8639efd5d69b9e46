package state

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

func usageSeqs(t testing.TB, s *Store, from uint64) (seqs []uint64) {
	t.Helper()
	v := s.Snapshot()
	defer v.Close()
	for row, err := range v.Usage(from) {
		must(t, err)
		seqs = append(seqs, row.Seq)
	}
	return seqs
}

// report adds n usage rows of the job with id 1.
func report(t testing.TB, tx *Tx, n int) {
	t.Helper()
	j := newJob(1, "q")
	j.Usage = &job.Usage{Model: "m", Provider: "p"}
	for range n {
		must(t, tx.AddUsage(j, &Usage{Report: &job.Usage{InputTokens: 7, CostNanoUsd: 9}}))
	}
}

// The store numbers rows through entries and restarts, and calls the hook for new ones.
func TestUsageIsNumberedWithoutAGap(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	told := 0
	s.SetHooks(Hooks{OnUsage: func() { told++ }})
	update(t, s, func(tx *Tx) { report(t, tx, 2) })
	update(t, s, func(*Tx) {})
	update(t, s, func(tx *Tx) { report(t, tx, 1) })
	if told != 2 {
		t.Errorf("the hook was called %d times for two entries with usage", told)
	}
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	update(t, s, func(tx *Tx) { report(t, tx, 1) })
	check(t, s)
	if got := usageSeqs(t, s, 0); !slices.Equal(got, []uint64{1, 2, 3, 4}) {
		t.Errorf("rows are %v", got)
	}
	if got := usageSeqs(t, s, 3); !slices.Equal(got, []uint64{3, 4}) {
		t.Errorf("rows from 3 on are %v", got)
	}
}

// A trim reaches the rows of its own entry. The numbers continue after it, even if no row is left.
func TestUsageNumbersGoOnBehindATrim(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) { report(t, tx, 3) })
	update(t, s, func(tx *Tx) {
		report(t, tx, 2)
		must(t, tx.TrimUsage(5))
	})
	check(t, s)
	if got := usageSeqs(t, s, 0); !slices.Equal(got, []uint64{5}) {
		t.Errorf("rows are %v", got)
	}
	update(t, s, func(tx *Tx) { must(t, tx.TrimUsage(6)) })
	must(t, s.Close())
	s = open(t, fs)
	defer s.Close()
	check(t, s)
	update(t, s, func(tx *Tx) { report(t, tx, 1) })
	check(t, s)
	if got := usageSeqs(t, s, 0); !slices.Equal(got, []uint64{6}) {
		t.Errorf("rows are %v", got)
	}
}

func TestImpossibleTrimsOfUsage(t *testing.T) {
	t.Parallel()
	for _, to := range []uint64{0, 2, 5} { // row 3 is the first kept, 4 the next
		s := open(t, vfs.NewMem())
		update(t, s, func(tx *Tx) {
			report(t, tx, 3)
			must(t, tx.TrimUsage(3))
		})
		tx := begin(s)
		if err := tx.TrimUsage(to); err == nil || !strings.Contains(err.Error(), "the rows from 3 to before 4") {
			t.Errorf("trim to %d: %v", to, err)
		}
		if err := tx.Commit(); err == nil {
			t.Errorf("an entry with a trim to %d was committed", to)
		}
		_ = s.Close()
	}
}

// A store from before usage existed opens, and its rows begin with number 1.
func TestAnOlderStoreStartsItsUsage(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	head := s.Head()
	head.UsageNextSeq, head.UsageFirstSeq = 0, 0 // and so not encoded
	b := s.gen.db.NewBatch()
	must(t, put(b, headKey(), head))
	must(t, s.gen.db.Apply(b, pebble.NoSync))
	must(t, s.Close())

	s = open(t, fs)
	defer s.Close()
	check(t, s)
	update(t, s, func(tx *Tx) { report(t, tx, 1) })
	check(t, s)
	if got := usageSeqs(t, s, 0); !slices.Equal(got, []uint64{1}) {
		t.Errorf("rows are %v", got)
	}
}

// fillDefaults replaces a zero by 1 in a number of a head that older versions did not write, and leaves other
// numbers.
func TestAHeadAges(t *testing.T) {
	t.Parallel()
	h := &Head{}
	h.fillDefaults()
	if h.UsageNextSeq != 1 || h.UsageFirstSeq != 1 {
		t.Errorf("an old head's usage is [%d,%d)", h.UsageFirstSeq, h.UsageNextSeq)
	}
	h.UsageNextSeq, h.UsageFirstSeq = 9, 4
	h.fillDefaults()
	if h.UsageNextSeq != 9 || h.UsageFirstSeq != 4 {
		t.Errorf("a head's usage became [%d,%d)", h.UsageFirstSeq, h.UsageNextSeq)
	}
}
