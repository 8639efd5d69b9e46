package job

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

const created = 1_700_000_000_000_000_000

func history(t testing.TB, events ...PastEvent) *Job {
	t.Helper()
	j := &Job{CreatedNs: created}
	for _, e := range events {
		var err error
		if j.History, err = AppendHistory(j.History, j.CreatedNs, e); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

func pasts(n int) (all []PastEvent) {
	for i := range n {
		all = append(all, PastEvent{Type: uint32(1 + i%300), AtNs: created + int64(i)*1e9, Attempt: uint32(i / 2)})
	}
	return all
}

func TestHistory(t *testing.T) {
	t.Parallel()
	plain := pasts(3)
	plain[2].AtNs = created - 5e9 // the clock of the shard it came to is behind
	j := history(t, plain...)
	if got, dropped, err := j.PastEvents(); err != nil || dropped != 0 || !slices.Equal(got, plain) {
		t.Errorf("%v, %d, %v", got, dropped, err)
	}
	if n := len(j.History); n > 3*8 {
		t.Errorf("three events take %d bytes", n)
	}
	if got, dropped, err := (&Job{}).PastEvents(); err != nil || dropped != 0 || got != nil {
		t.Errorf("a job from before there were histories: %v, %d, %v", got, dropped, err)
	}
}

// TestHistoryIsBounded makes histories as long as the bound, and longer.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{MaxHistoryHead, MaxHistory - 1, MaxHistory, MaxHistory + 1, MaxHistory + 2, 10 * MaxHistory} {
		all := pasts(n)
		got, dropped, err := history(t, all...).PastEvents()
		over := max(n-MaxHistory, 0)
		want := slices.Clone(all)
		if over > 0 {
			want = slices.Delete(want, MaxHistoryHead, MaxHistoryHead+over)
		}
		if err != nil || int(dropped) != over || !slices.Equal(got, want) {
			t.Errorf("of %d: %d and %d dropped, %v\n%v", n, len(got), dropped, err, got)
		}
	}
}

func TestHistoryThatIsNone(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte{0x80}, leastPast*MaxHistory+1)
	for _, b := range [][]byte{{1}, {1, 1}, {0x80}, long} {
		if _, _, err := (&Job{History: b}).PastEvents(); err == nil {
			t.Errorf("%x is read", b)
		}
	}
	if _, err := AppendHistory(long, created, PastEvent{Type: 1}); err == nil {
		t.Error("it is written on")
	}
}

// FuzzHistory reads arbitrary bytes. PastEvents refuses them, or they come out the same when they are written
// again.
func FuzzHistory(f *testing.F) {
	f.Add([]byte(nil))
	for _, n := range []int{1, 3, MaxHistory, MaxHistory + 7} {
		f.Add(history(f, pasts(n)...).History)
	}
	f.Add([]byte{1, 1})
	f.Add(appendPast(history(f, pasts(MaxHistory-1)...).History, gap, 1, 1)) // a gap that no history has
	f.Fuzz(func(t *testing.T, b []byte) {
		j := &Job{CreatedNs: created, History: b}
		events, dropped, err := j.PastEvents()
		if err != nil {
			return
		}
		longer, err := AppendHistory(slices.Clone(b), created, PastEvent{Type: 7, AtNs: created + 1})
		if err != nil {
			t.Fatal(err)
		}
		got, more, err := (&Job{CreatedNs: created, History: longer}).PastEvents()
		if err != nil || len(got) == 0 || got[len(got)-1] != (PastEvent{7, created + 1, 0}) {
			t.Fatalf("%v, %v", got, err)
		}
		if len(events) < MaxHistory && (more != dropped || fmt.Sprint(got[:len(got)-1]) != fmt.Sprint(events)) {
			t.Errorf("%d dropped of\n%v\n%d of\n%v", more, got, dropped, events)
		}
	})
}

// TestDropRepeated drops the newest event only if its type and attempt repeat, in a short and in a full history.
func TestDropRepeated(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, MaxHistoryHead, MaxHistoryHead + 1, MaxHistory + 7} {
		all := append(pasts(n), PastEvent{Type: 9, AtNs: created + int64(n) + 1, Attempt: 4})
		was := history(t, all...)
		for _, other := range [][2]uint32{{9, 3}, {8, 4}} {
			if got, err := DropRepeated(was.History, other[0], other[1]); err != nil || !bytes.Equal(got, was.History) {
				t.Errorf("%d events: %v drops event %x, %v", n, other, got, err)
			}
		}
		b, err := DropRepeated(slices.Clone(was.History), 9, 4)
		if err != nil {
			t.Fatal(err)
		}
		again := PastEvent{Type: 9, AtNs: created + int64(n) + 5, Attempt: 4}
		if b, err = AppendHistory(b, created, again); err != nil {
			t.Fatal(err)
		}
		want, dropped, _ := was.PastEvents()
		want[len(want)-1] = again
		got, more, err := (&Job{CreatedNs: created, History: b}).PastEvents()
		if err != nil || more != dropped || !slices.Equal(got, want) {
			t.Errorf("%d events: %d dropped of\n%v, %v\nwant %d of\n%v", n, more, got, err, dropped, want)
		}
	}
	if _, err := DropRepeated([]byte{0x80}, 9, 4); err == nil {
		t.Error("a damaged history is accepted")
	}
}
