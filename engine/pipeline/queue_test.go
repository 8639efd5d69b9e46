package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

func queued(class Class, sizes ...int) []*proposal {
	var all []*proposal
	for i, size := range sizes {
		all = append(all, new(pool).get(op{name: fmt.Sprint(class, i), class: class}, size))
	}
	return all
}

// taken describes a batch by the class and size of each op.
func taken(batch []*proposal) string {
	var words []string
	for _, pr := range batch {
		words = append(words, fmt.Sprintf("%d:%d", pr.class, pr.size))
	}
	return strings.Join(words, " ")
}

func TestTake(t *testing.T) {
	t.Parallel()
	ones := func(n int) []int {
		sizes := make([]int, n)
		for i := range sizes {
			sizes[i] = 1
		}
		return sizes
	}
	tests := []struct {
		name    string
		ops     int
		bytes   int64
		waiting map[Class][]int
		want    string
	}{
		{"all fits: classes in order", 8, 80, map[Class][]int{0: {2, 3}, 1: {4}, 3: {5}}, "0:2 0:3 1:4 3:5"},
		{"exactly full by ops", 3, 80, map[Class][]int{1: {1, 1, 1, 1}}, "1:1 1:1 1:1"},
		{"exactly full by bytes", 8, 10, map[Class][]int{1: {5, 5, 1}}, "1:5 1:5"},
		{"one above bytes waits", 8, 10, map[Class][]int{1: {5, 6}}, "1:5"},
		{"settles first when not all fits", 4, 80, map[Class][]int{0: ones(9), 1: ones(9)}, "0:1 0:1 0:1 1:1"},
		{"each class is sure of a share", 16, 800, map[Class][]int{0: ones(20), 1: ones(20), 2: ones(20), 3: ones(20)},
			"0:1 0:1 0:1 0:1 0:1 0:1 0:1 0:1 0:1 0:1 1:1 1:1 2:1 2:1 3:1 3:1"},
		{"a lone oversized op goes", 8, 10, map[Class][]int{2: {50, 1}}, "2:50"},
		{"an oversized op of a later class goes", 8, 16, map[Class][]int{0: {8, 8}, 3: {50}}, "0:8 3:50"},
		{"a share not needed is given away", 16, 160, map[Class][]int{0: ones(20), 3: ones(1)},
			strings.Repeat("0:1 ", 15) + "3:1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var q queue
			for class, sizes := range test.waiting {
				for _, pr := range queued(class, sizes...) {
					q.push(pr)
				}
			}
			l := Limits{EntryOps: test.ops, EntryBytes: test.bytes}
			before := q.ops
			batch := q.take(nil, &l)
			if got := taken(batch); got != test.want {
				t.Errorf("took %s, want %s", got, test.want)
			}
			if q.ops != before-len(batch) {
				t.Errorf("%d waited, %d were taken, %d are left", before, len(batch), q.ops)
			}
		})
	}
}

// TestTakeStarvesNobody checks that a fetch with n older fetches before it is in one of the next n+1 entries,
// however many settles and enqueues arrive.
func TestTakeStarvesNobody(t *testing.T) {
	t.Parallel()
	var q queue
	l := Limits{EntryOps: 8, EntryBytes: 64}
	const fetches = 10
	for _, pr := range queued(ClassFetch, make([]int, fetches)...) {
		pr.size = 100 // each is larger than an entry
		q.push(pr)
	}
	for entries := 1; q.lists[ClassFetch].ops > 0; entries++ {
		if entries > fetches {
			t.Fatalf("%d fetches still wait after %d entries", q.lists[ClassFetch].ops, entries-1)
		}
		for _, pr := range append(queued(ClassSettle, 9, 9, 9, 9, 9, 9, 9, 9), queued(ClassEnqueue, 9, 9, 9, 9, 9, 9, 9, 9)...) {
			q.push(pr)
		}
		q.take(nil, &l)
	}
}

// TestTheLargestEntryIsBounded checks that an entry of the largest ops of every class, and of as many small ones as
// fit, does not exceed the bound of the log. Each class must still be in every second entry.
func TestTheLargestEntryIsBounded(t *testing.T) {
	t.Parallel()
	var q queue
	l := Limits{EntryOps: MostEntryOps, EntryBytes: MostEntryBytes}
	const rounds = 8
	for range rounds {
		for c := range classes {
			for _, pr := range queued(c, MaxOpBytes) {
				q.push(pr)
			}
		}
	}
	small := make([]int, MostEntryOps)
	for i := range small {
		small[i] = (MostEntryBytes - 4<<10) / MostEntryOps
	}
	missed := [classes]int{}
	for entries := 0; q.lists[ClassManage].ops > 0; entries++ {
		if entries == 2*rounds {
			t.Fatalf("%d ops still wait after %d entries", q.ops, entries)
		}
		if q.lists[ClassSettle].ops == 0 { // the other classes still have their largest ops
			for _, pr := range queued(ClassSettle, small...) {
				q.push(pr)
			}
		}
		var in [classes]bool
		size := int64(entry.MaxHeader)
		for _, pr := range q.take(nil, &l) {
			in[pr.class] = true
			size += pr.size + entry.MaxOpHeader
		}
		if size > entry.MaxBytes {
			t.Errorf("entry %d takes %d bytes, the most is %d", entries, size, entry.MaxBytes)
		}
		for c := range classes {
			if missed[c]++; in[c] || q.lists[c].ops == 0 {
				missed[c] = 0
			}
			if missed[c] > 1 {
				t.Errorf("class %d is in none of two entries up to %d", c, entries)
			}
		}
	}
}

func TestRemoveAnywhere(t *testing.T) {
	t.Parallel()
	for gone := range 3 {
		var q queue
		all := queued(ClassFetch, 1, 2, 3)
		for _, pr := range all {
			q.push(pr)
		}
		q.remove(all[gone])
		want := strings.ReplaceAll("2:1 2:2 2:3", fmt.Sprintf("2:%d", gone+1), "")
		if got := taken(q.take(nil, &Limits{EntryOps: 9, EntryBytes: 99})); got != strings.Join(strings.Fields(want), " ") {
			t.Errorf("without %d: %s", gone, got)
		}
		if q.ops != 0 || q.bytes != 0 {
			t.Errorf("an empty queue counts %d ops, %d bytes", q.ops, q.bytes)
		}
	}
}

// TestAdmissionBounds checks the exact share of the backlog up to which each class is admitted.
func TestAdmissionBounds(t *testing.T) {
	t.Parallel()
	for class, wantOps := range map[Class]int{ClassSettle: 32, ClassEnqueue: 28, ClassFetch: 24, ClassManage: 16} {
		for _, l := range []Limits{
			{BacklogOps: 32, BacklogBytes: 1 << 30},
			{BacklogOps: 1 << 30, BacklogBytes: 320},
		} {
			var q queue
			for {
				pr := new(pool).get(op{class: class}, 10)
				if !q.fits(pr, &l) {
					break
				}
				q.push(pr)
			}
			if q.ops != wantOps {
				t.Errorf("class %d, limits %+v: %d ops let in, want %d", class, l, q.ops, wantOps)
			}
		}
	}
}

func TestAnyOpFitsAnEmptyBacklog(t *testing.T) {
	t.Parallel()
	l := Limits{}.WithDefaults()
	for class := range classes {
		if !new(queue).fits(&proposal{class: class, size: MaxOpBytes}, &l) {
			t.Errorf("class %d cannot hold the largest op", class)
		}
	}
}

func TestOverloadAnswersWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t, func(c *Config) { c.Limits = Limits{InFlight: 1, BacklogOps: 10} })
		refused := func() *api.Error {
			t.Helper()
			_, _, err := p.Propose(t.Context(), op{name: "x", class: ClassManage})
			wantCode(t, err, api.Overloaded)
			return err.(*api.Error)
		}
		var answers []<-chan answer
		fill := func(n int) {
			for range n {
				answers = append(answers, propose(t.Context(), p, op{name: "s"}))
				synctest.Wait()
			}
		}
		fill(11) // one in flight, ten wait
		if got := refused().RetryAfter; got != time.Second {
			t.Errorf("before anything is known of the log: %v", got)
		}
		// The log needs half a second for one op.
		time.Sleep(500 * time.Millisecond)
		l.entries[0].settled <- nil
		synctest.Wait()
		fill(10)
		if got := refused().RetryAfter; got != 5*time.Second {
			t.Errorf("ten wait at 2/s: %v", got)
		}
		// The second entry, with ten ops, takes as long: 20/s now, 11/s on average.
		time.Sleep(500 * time.Millisecond)
		l.entries[1].settled <- nil
		synctest.Wait()
		fill(10)
		if got := refused().RetryAfter.Round(time.Millisecond); got != 909*time.Millisecond {
			t.Errorf("ten wait at 11/s: %v", got)
		}
		for len(answers) > 0 {
			for _, e := range l.entries {
				select {
				case e.settled <- nil:
				default:
				}
			}
			synctest.Wait()
			select {
			case <-answers[0]:
				answers = answers[1:]
			default:
			}
		}
	})
}

func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	fast, slow := rate{perSecond: 1e9}, rate{perSecond: 1e-9}
	if a, b := fast.drain(1), slow.drain(1); a != MinRetryAfter || b != MaxRetryAfter {
		t.Errorf("fast %v, slow %v", a, b)
	}
}

// TestRateCountsBusyTimeOnly checks that idle time does not lower the rate.
func TestRateCountsBusyTimeOnly(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var r rate
	for range 10 {
		r.begin(now)
		now = now.Add(rateWindow)
		r.end(now, 25)
		now = now.Add(time.Hour)
	}
	if r.perSecond != 100 {
		t.Errorf("25 ops in 250 ms are %v/s", r.perSecond)
	}
}
