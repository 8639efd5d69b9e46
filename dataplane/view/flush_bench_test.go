//go:build unix

package view

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// perFlush is the number of jobs in a flush of the benchmarks: 7,500 jobs a second at the default cadence.
const perFlush = 1500

// prose makes payloads of about 200 bytes whose words are as unevenly common as those of a language: each
// payload has a few words that every payload has, and some of its own.
type prose struct {
	random *rand.Rand
	words  *rand.Zipf
}

func newProse() *prose {
	random := rand.New(rand.NewPCG(7, 7))
	return &prose{random, rand.NewZipf(random, 1.1, 4, 20_000)}
}

func (t *prose) next() string {
	var note strings.Builder
	for note.Len() < 90 {
		fmt.Fprintf(&note, " %s", word(t.words.Uint64()))
	}
	return fmt.Sprintf(`{"to":"user%d@example.com","order":"%08x-%04x","amount":%d,"template":%q,"note":%q}`,
		t.random.IntN(1_000_000), t.random.Uint32(), t.random.IntN(1<<16), t.random.IntN(10_000), word(t.words.Uint64()), note.String()[1:])
}

// word spells a number in syllables.
func word(n uint64) string {
	text := ""
	for first := true; first || n > 0; first = false {
		text += string("bdfgklmnprst"[n%12]) + string("aeiou"[n/12%5])
		n /= 60
	}
	return text
}

// enqueueProse creates n jobs with payloads of prose and returns their ids.
func (h *shard) enqueueProse(t *prose, n int) []job.ID {
	return h.enqueueEach(n, func() *job.Blob { return payload(t.next()) })
}

// byHand returns a view of an empty shard that only the benchmark flushes.
func byHand(b *testing.B) (*shard, *View) {
	h := newShard(b)
	h.settle()
	h.closeView()
	v := newView(h.dir, h.store, h.options(), h.limits)
	must(b, v.resume(b.Context()))
	b.Cleanup(func() { must(b, v.db.close()) })
	return h, v
}

// cpuTime returns the processor time, user and system, that the process has used so far. Of all measures it
// depends least on the other load of the machine.
func cpuTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkProse measures flushes of jobs with payloads of prose: of new jobs, of jobs that have rows and
// complete, and of jobs that are deleted. An op is a flush.
func BenchmarkProse(b *testing.B) {
	for _, c := range []struct {
		name   string
		change func(h *shard, ids []job.ID) // changes jobs that have rows; nil for new jobs
	}{
		{"new", nil},
		{"completed", func(h *shard, ids []job.ID) { h.changeMany(ids, complete, evCompleted) }},
		{"deleted", func(h *shard, ids []job.ID) {
			h.changeMany(ids, complete, evCompleted)
			h.commit(func(tx *state.Tx) {
				for _, id := range ids {
					j, err := tx.Job(id)
					must(b, err)
					must(b, tx.DeleteJob(j, evDeleted))
				}
			})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, v := byHand(b)
			texts := newProse()
			var made [][]job.ID
			if c.change != nil {
				for range b.N {
					made = append(made, h.enqueueProse(texts, perFlush))
					flush(b, v)
				}
			}
			var used time.Duration
			b.ResetTimer()
			for i := range b.N {
				b.StopTimer()
				if c.change == nil {
					h.enqueueProse(texts, perFlush)
				} else {
					c.change(h, made[i])
				}
				b.StartTimer()
				before := cpuTime(b)
				flush(b, v)
				used += cpuTime(b) - before
			}
			b.ReportMetric(float64(used.Nanoseconds())/1000/float64(perFlush*b.N), "cpu-µs/job")
		})
	}
}

// BenchmarkCadence measures jobs from enqueue to completion at two intervals between flushes. 15,000 jobs
// begin each second and live 80 ms on average. An op is 400 ms of that.
func BenchmarkCadence(b *testing.B) {
	const perMs, meanMs, opMs = 15, 80, 400
	for _, every := range []int{200, 400} {
		b.Run(fmt.Sprintf("every=%dms", every), func(b *testing.B) {
			h, v := byHand(b)
			texts := newProse()
			var used time.Duration
			ends := map[int][]job.ID{} // by the number of the flush before which they complete
			for i := range b.N * opMs / every {
				b.StopTimer()
				for n, id := range h.enqueueProse(texts, perMs*every) {
					at := float64(n)/perMs + meanMs*texts.random.ExpFloat64()
					ends[i+int(at)/every] = append(ends[i+int(at)/every], id)
				}
				h.changeMany(ends[i], complete, evCompleted)
				delete(ends, i)
				b.StartTimer()
				before := cpuTime(b)
				flush(b, v)
				used += cpuTime(b) - before
			}
			b.ReportMetric(float64(used.Nanoseconds())/1000/float64(perMs*opMs*b.N), "cpu-µs/job")
		})
	}
}

func flush(b *testing.B, v *View) {
	_, err := v.flush()
	must(b, err)
}

// BenchmarkWords measures searches by words among 105,000 jobs that the view wrote in flushes.
func BenchmarkWords(b *testing.B) {
	h, v := byHand(b)
	texts := newProse()
	for range 70 {
		h.enqueueProse(texts, perFlush)
		flush(b, v)
	}
	v.current = v.db
	for _, c := range []struct{ name, words string }{
		{"that all have", "example"},
		{"that one of nine has", word(3)},
		{"that few have", word(9000)},
		{"that none has", "zzzz"},
		{"two", word(100) + " " + word(140)},
		{"a phrase", `"` + word(3) + " " + word(4) + `"`},
		{"a prefix", "user777*"},
	} {
		b.Run(c.name, func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				_, err := v.Search(b.Context(), Query{Words: c.words})
				must(b, err)
			}
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
		})
	}
}

// BenchmarkFlush measures the processor time of a flush for each job that it writes: for new jobs, for jobs
// that have rows and were fetched and completed with a result, and for new jobs that are completed already.
// It calls flush itself, without the flusher's pauses.
func BenchmarkFlush(b *testing.B) {
	for _, c := range []struct {
		name      string
		had, done bool // whether the jobs have rows before the flush, and whether they complete in it
	}{{"insert", false, false}, {"update", true, true}, {"coalesced", false, true}} {
		for _, jobs := range []int{1500, 20_000} {
			b.Run(fmt.Sprintf("%s/jobs=%d", c.name, jobs), func(b *testing.B) {
				h := newShard(b)
				h.enqueueMany(20_000)
				h.settle()
				h.closeView()
				v := newView(h.dir, h.store, h.options(), h.limits)
				v.limits.scrub = time.Hour
				must(b, v.resume(b.Context()))
				b.Cleanup(func() { must(b, v.db.close()) })
				flush := func() {
					for more := true; more; {
						var err error
						more, err = v.flush()
						must(b, err)
					}
				}
				var spent time.Duration
				for b.Loop() {
					b.StopTimer()
					ids := h.enqueueMany(jobs)
					if c.had {
						flush()
					}
					if c.done {
						h.changeMany(ids, fetched("w"), evStarted)
						h.changeMany(ids, completeWith(payload(`{"ok":true,"n":12345}`)), evCompleted)
					}
					runtime.GC()
					b.StartTimer()
					before := cpuTime(b)
					flush()
					spent += cpuTime(b) - before
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(spent.Nanoseconds())/float64(jobs*b.N)/1e3, "cpu-us/job")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(jobs*b.N)/1e3, "us/job")
			})
		}
	}
}

func completeWith(result *job.Blob) func(*state.Tx, *job.Job) {
	return func(tx *state.Tx, j *job.Job) {
		complete(tx, j)
		if err := tx.PutBlob(j, job.Result, result); err != nil {
			panic(err)
		}
	}
}

// BenchmarkRebuild builds a view of 100,000 jobs, or of CORVO_VIEW_JOBS jobs, with payloads of prose. Half of
// the jobs are completed. The numbers of jobs rise with their ids or, in the second case, the two orders
// differ for each pair of jobs, as they do for requests that arrive at the same time.
func BenchmarkRebuild(b *testing.B) {
	jobs := 100_000
	if n, err := strconv.Atoi(os.Getenv("CORVO_VIEW_JOBS")); err == nil {
		jobs = n
	}
	for _, pairs := range []bool{false, true} {
		b.Run(fmt.Sprintf("pairs=%t", pairs), func(b *testing.B) {
			h := newShard(b)
			h.closeView()
			texts := newProse()
			if pairs {
				h.ids = 1
			}
			ids := h.enqueueEach(jobs, func() *job.Blob {
				if pairs { // the ids are 2, 1, 4, 3 and so on
					h.ids += []int{-2, 2}[h.ids%2]
				}
				return payload(texts.next())
			})
			half := ids[:jobs/2]
			h.changeMany(half, fetched("w"), evStarted)
			h.changeMany(half, complete, evCompleted)
			v := newView(h.dir, h.store, h.options(), h.limits)
			used := cpuTime(b)
			for b.Loop() {
				must(b, v.rebuild(b.Context(), "it is measured"))
			}
			b.ReportMetric(float64(jobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64((cpuTime(b)-used).Microseconds())/float64(jobs*b.N), "cpu-us/job")
			must(b, v.db.close())
		})
	}
}
