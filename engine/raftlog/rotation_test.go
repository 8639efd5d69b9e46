package raftlog

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// TestDeleteRightBehindAppend deletes right after the append that fills a segment, while the library replaces
// the segment. Each entry fills a segment, and nothing is synced, so that the replacement gets no extra time.
func TestDeleteRightBehindAppend(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		dir := t.TempDir()
		f := Factory{SegmentBytes: MinSegmentBytes, NoSync: true, Logger: hclog.NewNullLogger()}
		s, err := f.Open(dir, Kind(kind))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // unless the test has closed it
		full := bytes.Repeat([]byte("full"), MinSegmentBytes/4)
		var last uint64
		for range 30 {
			store(t, s, []*raft.Log{{Index: last + 1, Data: full}, {Index: last + 2, Data: full}})
			remove(t, s, last+2, last+2)
			last++
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, Kind(kind))
		if got := lastOf(t, s); got != last {
			t.Errorf("%s: the log ends at %d, want %d", kind, got, last)
		}
		for i := uint64(1); i <= last; i++ {
			if err := s.GetLog(i, new(raft.Log)); err != nil {
				t.Fatalf("%s: entry %d: %v", kind, i, err)
			}
		}
	}
}

// TestDeathInARotation crashes while a segment is full and the next one does not exist yet, or in the append
// that fills it. The log must continue with every acknowledged entry, however often it is opened.
func TestDeathInARotation(t *testing.T) {
	t.Parallel()
	for _, held := range []uint64{0, 3} { // the first append fills it, or the fourth
		for name, missing := range map[string]int{"none": 0, "the commit": 8, "half of the index": 20, "most": MinSegmentBytes - 1000} {
			dir := t.TempDir()
			s := open(t, dir, WAL)
			want := logs(1, held, 1)
			store(t, s, want)
			before := files(t, dir)
			full := logAt(held+1, 1)
			full.Data = bytes.Repeat([]byte("full"), MinSegmentBytes/4)
			store(t, s, []*raft.Log{full})
			died := map[string]content{}
			for name, c := range files(t, dir) {
				if old, ok := before[name]; ok && filepath.Ext(name) != ".wal" {
					c = old // the metadata and the marks
				} else if ok {
					c.data = c.data[:len(c.data)-missing]
				} else {
					continue // the next segment
				}
				died[name] = c
			}
			if missing == 0 {
				want = append(want, full)
			}
			again, err := reopen(t, WAL, died)
			if err != nil {
				t.Fatalf("%d held, %s missing: %v", held, name, err)
			}
			for term := uint64(2); term < 5; term++ {
				wantLogs(t, again, want)
				more := logs(uint64(len(want))+1, uint64(len(want))+20, term)
				store(t, again, more)
				want = append(want, more...)
				wantLogs(t, again, want)
				dir := again.(located).directory()
				if err := again.Close(); err != nil {
					t.Fatal(err)
				}
				again = open(t, dir, WAL)
			}
		}
	}
}
