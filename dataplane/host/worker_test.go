package host

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/corvo/corvo/dataplane/job"
)

// named returns the ids of a list, sorted.
func named(all []Worker) (ids []string) {
	for _, w := range all {
		ids = append(ids, w.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestAWorkerIsWhatItHasSaid(t *testing.T) {
	t.Parallel()
	var w Workers
	w.Fetched("w1", "", []string{"b"}, 10)
	w.Fetched("w1", "host", []string{"c", "a"}, 30)
	w.Fetched("w1", "", []string{"a"}, 20) // overtaken by the request before
	w.Seen("w2", 40)
	w.Fetched("", "nobody", []string{"a"}, 50)
	w.Seen("", 50)
	got := w.List(60)
	slices.SortFunc(got, func(a, b Worker) int { return len(b.Queues) - len(a.Queues) })
	want := []Worker{
		{ID: "w1", Hostname: "host", Queues: []string{"a", "b", "c"}, StartedNs: 10, SeenNs: 30},
		{ID: "w2", StartedNs: 40, SeenNs: 40},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestQueuesOfAWorkerAreBounded checks that the last job.MaxFetchQueues queues of a worker are kept.
func TestQueuesOfAWorkerAreBounded(t *testing.T) {
	t.Parallel()
	var w Workers
	for i := range job.MaxFetchQueues {
		w.Fetched("w", "", []string{fmt.Sprintf("q%02d", i)}, 1)
	}
	if q := w.List(1)[0].Queues; len(q) != job.MaxFetchQueues || q[0] != "q00" {
		t.Errorf("at the bound it has %v", q)
	}
	w.Fetched("w", "", []string{"one-more"}, 1)
	if q := w.List(1)[0].Queues; len(q) != job.MaxFetchQueues || q[0] != "one-more" || q[1] != "q01" {
		t.Errorf("above the bound it has %v", q)
	}
}

func TestWorkersAreForgotten(t *testing.T) {
	t.Parallel()
	var w Workers
	w.Seen("early", 1)
	w.Seen("late", 2)
	end := 1 + int64(job.WorkerForgotten)
	if got := named(w.List(end)); !slices.Equal(got, []string{"early", "late"}) {
		t.Errorf("after %v there are %v", job.WorkerForgotten, got)
	}
	if got := named(w.List(end + 1)); !slices.Equal(got, []string{"late"}) {
		t.Errorf("a nanosecond later there are %v", got)
	}
	if w.count != 1 {
		t.Errorf("%d are kept", w.count)
	}
	w.Seen("early", end+2) // it counts as a new worker
	for _, one := range w.List(end + 2) {
		if one.ID == "early" && one.StartedNs != end+2 {
			t.Errorf("one that was forgotten has been here since %d", one.StartedNs)
		}
	}
}

// TestWorkersAreBounded checks that a worker beyond the bound takes the place of the longest unseen one,
// although others have been seen in the meantime.
func TestWorkersAreBounded(t *testing.T) {
	t.Parallel()
	var w Workers
	now := int64(0)
	tick := func() int64 { now++; return now }
	for i := range job.MaxWorkers {
		w.Seen(fmt.Sprint("w", i), tick())
	}
	if n := len(w.List(now)); n != job.MaxWorkers {
		t.Fatalf("%d workers at the bound", n)
	}
	w.Seen("w0", tick())
	w.Seen("new0", tick())
	// w2 is a candidate by now, and is seen after all.
	w.Seen("w2", tick())
	for i := range candidates + 10 {
		w.Seen(fmt.Sprint("more", i), tick())
	}
	var want []string
	for i := range job.MaxWorkers {
		if i > candidates+12 || i == 0 || i == 2 {
			want = append(want, fmt.Sprint("w", i))
		}
	}
	want = append(want, "new0")
	for i := range candidates + 10 {
		want = append(want, fmt.Sprint("more", i))
	}
	slices.Sort(want)
	if got := named(w.List(now)); !slices.Equal(got, want) || w.count != job.MaxWorkers {
		t.Errorf("%d workers, counted %d, want %d: the wrong ones were forgotten", len(got), w.count, len(want))
	}
}

// TestWorkersComeTogether records the requests of many workers at the same time.
func TestWorkersComeTogether(t *testing.T) {
	t.Parallel()
	var w Workers
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 200 {
				w.Fetched(fmt.Sprint("w", i%50), "h", []string{fmt.Sprint("q", g)}, int64(i))
				if i%50 == 0 {
					w.List(int64(i))
				}
			}
		})
	}
	all.Wait()
	got := w.List(200)
	if len(got) != 50 || w.count != 50 {
		t.Fatalf("%d workers, counted %d", len(got), w.count)
	}
	for _, one := range got {
		if len(one.Queues) != 8 || one.SeenNs < 150 {
			t.Errorf("%+v", one)
		}
	}
}

// BenchmarkFetched measures the cost of Fetched for a known worker if all fetches are of the same one. A
// whole job costs some fifty microseconds.
func BenchmarkFetched(b *testing.B) {
	var w Workers
	queues := []string{"emails", "reports", "images"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w.Fetched("worker-1", "host-1", queues, time.Now().UnixNano())
		}
	})
}

// TestAWorkerKeepsNoMessage checks that the record of a worker keeps no request in memory because of its
// texts.
func TestAWorkerKeepsNoMessage(t *testing.T) {
	t.Parallel()
	var w Workers
	message := strings.Repeat("idhostqueue", 1<<10)
	w.Fetched(message[:2], message[2:6], []string{message[6:11]}, 1)
	inside := func(s string) bool {
		begin, at := uintptr(unsafe.Pointer(unsafe.StringData(message))), uintptr(unsafe.Pointer(unsafe.StringData(s)))
		return at >= begin && at < begin+uintptr(len(message))
	}
	w.known.Range(func(id, of any) bool {
		report := of.(*worker).report.Load()
		if inside(id.(string)) || inside(report.hostname) || inside(report.queues[0]) {
			t.Errorf("%s of %s, which fetches %v, lies in the message", id, report.hostname, report.queues)
		}
		return true
	})
}

// TestAWorkerReports checks that a worker's reported concurrency and draining stay while it sends other
// requests. A later report that it does not drain says that it takes jobs again.
func TestAWorkerReports(t *testing.T) {
	t.Parallel()
	var w Workers
	w.Reports("", 1, true, 1)
	w.Reports("w", 8, false, 10)
	w.Fetched("w", "host", []string{"q"}, 20)
	w.Reports("w", 0, true, 30)
	w.Seen("w", 40)
	want := Worker{ID: "w", Hostname: "host", Queues: []string{"q"}, Concurrency: 8, Draining: true, StartedNs: 10, SeenNs: 40}
	if got := w.List(50); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	w.Reports("w", 4, false, 60)
	if got := w.List(70); got[0].Concurrency != 4 || got[0].Draining {
		t.Errorf("%+v", got)
	}
}
