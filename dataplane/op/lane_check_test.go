package op_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// keyed returns an enqueue of n jobs with a fairness key.
func (w *world) keyed(queue, key string, weight uint32, n int) *op.Enqueue {
	o := w.newJobs(queue, n)
	for _, nj := range o.Jobs {
		if key != "" {
			nj.FairnessKey, nj.FairnessWeight = key, weight
		}
	}
	return o
}

// rule returns the declaration of a limit rule.
func (w *world) rule(r *state.LimitRule) *op.PutResource {
	id := w.newID("")
	return &op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_LIMIT_RULE, Name: op.LimitRuleName(r.Queue, r.Key), Shards: 1, LimitRule: r,
	}}
}

func unruled(queue, key string) *op.DeleteResource {
	return &op.DeleteResource{Kind: state.ResourceKind_RESOURCE_KIND_LIMIT_RULE, Name: op.LimitRuleName(queue, key), Shards: 1}
}

// keyOf returns the fairness key of a leased job.
func (w *world) keyOf(l *op.Leased) string {
	w.t.Helper()
	j, err := w.store.Job(job.ID(l.Id))
	if err != nil || j == nil {
		w.t.Fatal(j, err)
	}
	return j.FairnessKey
}

// tenant is one fairness key of the shop's queue.
type tenant struct {
	key    string
	weight uint32
	takes  time.Duration // each of its jobs
	jobs   int
	most   uint32 // at once; 0 = unlimited
}

// shop is a queue whose workers are always at work, in a time of its own.
type shop struct {
	*world
	takes   map[string]time.Duration
	working []work
	began   map[string]int
	most    map[string]int // that were active at once
}

type work struct {
	key    string
	endsNs int64
	leased *op.Leased
}

func newShop(t *testing.T, tenants []tenant) *shop {
	s := &shop{world: newWorld(t), takes: map[string]time.Duration{}, began: map[string]int{}, most: map[string]int{}}
	for _, c := range tenants {
		s.takes[c.key] = c.takes
		for left := c.jobs; left > 0; left -= 1000 {
			s.apply(s.keyed("q", c.key, c.weight, min(left, 1000)))
		}
		if c.most > 0 {
			s.apply(s.rule(&state.LimitRule{Queue: "q", Key: c.key, MaxConcurrency: c.most}))
		}
	}
	return s
}

// run begins n jobs on a number of workers and returns the keys of these jobs in order.
func (s *shop) run(workers, n int) (keys []string) {
	s.t.Helper()
	for len(keys) < n {
		if len(s.working) < workers {
			if got := one[*op.FetchResult](s.world, s.fetch("q", 1)).Jobs; len(got) == 1 {
				key := s.keyOf(got[0])
				s.working = append(s.working, work{key, s.clockNs + s.takes[key].Nanoseconds(), got[0]})
				s.began[key]++
				keys = append(keys, key)
				active := 0
				for _, other := range s.working {
					if other.key == key {
						active++
					}
				}
				s.most[key] = max(s.most[key], active)
				continue
			}
			if len(s.working) == 0 {
				s.t.Fatalf("nothing is ready after %d jobs", len(keys))
			}
		}
		s.end()
	}
	return keys
}

// end lets time pass until the next job ends.
func (s *shop) end() {
	first := slices.MinFunc(s.working, func(a, b work) int { return cmp.Compare(a.endsNs, b.endsNs) })
	s.clockNs = max(s.clockNs, first.endsNs)
	s.apply(ack(first.leased))
	s.working = slices.DeleteFunc(s.working, func(x work) bool { return x.leased == first.leased })
}

// TestShares lets tenants whose jobs never run out compete: the share of each, by its weight, differs from any
// other's by at most a job of each.
func TestShares(t *testing.T) {
	t.Parallel()
	many := func(n, jobs int) (all []tenant) {
		for i := range n {
			all = append(all, tenant{key: fmt.Sprintf("k%04d", i), weight: 1, takes: time.Duration(1+i%7) * time.Second, jobs: jobs})
		}
		return all
	}
	for name, c := range map[string]struct {
		tenants []tenant
		workers int
		jobs    int
	}{
		"a thousand jobs and few": {[]tenant{{"noisy", 1, time.Second, 1000, 0}, {"quiet", 1, time.Second, 60, 0}}, 1, 100},
		"weights":                 {[]tenant{{"one", 1, time.Second, 300, 0}, {"three", 3, time.Second, 300, 0}}, 1, 300},
		"weights, many workers":   {[]tenant{{"one", 1, time.Second, 300, 0}, {"three", 3, time.Second, 300, 0}}, 8, 300},
		"long and short":          {[]tenant{{"long", 1, 10 * time.Second, 100, 0}, {"short", 1, time.Second, 500, 0}}, 1, 300},
		"long and short, several": {[]tenant{{"long", 2, 10 * time.Second, 200, 0}, {"short", 1, time.Second, 500, 0}}, 4, 300},
		"without a key":           {[]tenant{{"", 1, time.Second, 200, 0}, {"keyed", 1, 2 * time.Second, 200, 0}}, 3, 200},
		"ten":                     {many(10, 100), 3, 200},
		"a thousand":              {many(1000, 15), 5, 2500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, c.tenants)
			s.run(c.workers, c.jobs)
			for len(s.working) > 0 {
				s.end() // a job that has begun counts with its whole duration
			}
			checkShares(t, s, c.tenants)
			s.check()
		})
	}
}

func checkShares(t *testing.T, s *shop, tenants []tenant) {
	t.Helper()
	given := func(x tenant) (all, one float64) {
		if s.began[x.key] == x.jobs {
			t.Fatalf("%q has run out of jobs: nothing is compared", x.key)
		}
		one = x.takes.Seconds() / float64(x.weight)
		return float64(s.began[x.key]) * one, one
	}
	for i, a := range tenants {
		for _, b := range tenants[:i] {
			all, one := given(a)
			otherAll, other := given(b)
			if d := all - otherAll; d > one+other || -d > one+other {
				t.Fatalf("%q has been given %.2f s and %q %.2f s by weight; their jobs take %.2f s and %.2f s", a.key, all, b.key, otherAll, one, other)
			}
		}
	}
}

// A key with a limit never exceeds it, and the others share the rest.
func TestSharesWithLimits(t *testing.T) {
	t.Parallel()
	tenants := []tenant{{"bounded", 1, 2 * time.Second, 300, 1}, {"a", 1, time.Second, 300, 0}, {"b", 1, time.Second, 300, 0}}
	s := newShop(t, tenants)
	s.run(6, 300)
	if s.most["bounded"] != 1 || s.began["bounded"] < 25 {
		t.Errorf("at most %d of the bounded key were active, %d began", s.most["bounded"], s.began["bounded"])
	}
	checkShares(t, s, tenants[1:])
	// A key gets no credit for the time under its limit: without the limit it shares from that moment on.
	before := s.began["bounded"]
	s.apply(unruled("q", "bounded"))
	keys := s.run(6, 60)
	if n := s.began["bounded"] - before; n > 60/3 || n < 60/5-1 {
		t.Errorf("of the next 60 jobs %d are of the key whose limit was lifted: %v", n, keys)
	}
	s.check()
}

// A key that comes late to a queue full of another key's jobs is served at once. A stream of new keys does
// not starve the keys that are there.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	s := newShop(t, []tenant{{"noisy", 1, time.Second, 1000, 0}})
	s.run(1, 200)
	s.takes["quiet"] = time.Second
	for range 20 {
		s.apply(s.keyed("q", "quiet", 1, 1))
		if keys := s.run(1, 2); !slices.Contains(keys, "quiet") {
			t.Fatalf("the quiet key waits for %v", keys)
		}
		s.run(1, 5)
	}
	before := s.began["noisy"]
	s.apply(s.keyed("q", "k", 1, 1))
	for i := range 200 { // there is always a key that was never served
		key := fmt.Sprint("k", i)
		s.takes[key] = time.Second
		s.apply(s.keyed("q", key, 1, 1))
		s.run(1, 1)
	}
	// A new key comes with each job that ends. So after n jobs of the backlog n new keys wait, and each has
	// its turn before the backlog's next job. Its n-th job is therefore about the (n*n/2)-th of all, and
	// about 20 of 200 jobs are from the backlog.
	if n := s.began["noisy"] - before; n < 15 {
		t.Errorf("beside ever new keys, %d of 200 jobs were of the key with a backlog", n)
	}
	s.check()
}

// Keys that have a job each and never come again leave nothing behind.
func TestLanesAreForgotten(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	for i := range 300 {
		key := fmt.Sprint("k", i)
		s.takes[key] = time.Duration(1+i%5) * time.Second
		s.apply(s.keyed("q", key, 1, 1))
		if i >= 10 {
			s.run(3, 1)
		}
		if n := s.store.Head().LaneRecords; n > 60 {
			t.Fatalf("after %d keys there are %d lanes", i, n)
		}
	}
	s.run(3, 10)
	for len(s.working) > 0 {
		s.end()
	}
	if n := s.store.Head().LaneRecords; n != 0 {
		t.Errorf("nothing is left to do, and there are %d lanes", n)
	}
	s.check()
	s.checkReplica()
}

// With ageing, a job that has waited long precedes urgent new ones; without ageing it never does.
func TestAgeing(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "k"} {
		for _, ageing := range []time.Duration{0, time.Minute} {
			w := newWorld(t)
			w.apply(&op.SetQueue{Queue: "q", AgeingMs: val(ageing.Milliseconds())}, w.keyed("q", key, 0, 1))
			waited := time.Duration(0)
			for ; waited < 10*time.Minute; waited += 10 * time.Second {
				flood := w.keyed("q", key, 0, 3)
				for _, nj := range flood.Jobs {
					nj.Priority = job.Critical
				}
				got := one[*op.FetchResult](w, w.fetch("q", 1)).Jobs
				w.apply(flood)
				if len(got) == 1 {
					if j, err := w.store.Job(job.ID(got[0].Id)); err != nil || j.Priority == job.Normal && waited > 0 {
						break
					} else if j.Priority == job.Normal {
						w.apply(&op.Fail{Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: got[0].Id, Token: got[0].LeaseToken}, Reason: op.FailReason_FAIL_REASON_UNDELIVERED}}})
					}
				}
				w.clockNs += (10 * time.Second).Nanoseconds()
			}
			// The flood ages as well: a job counts as critical two ageings after its creation, and precedes jobs
			// that were created after that.
			if ageing == 0 && waited < 10*time.Minute || ageing > 0 && (waited < 2*time.Minute || waited > 9*time.Minute) {
				t.Errorf("key %q, ageing %s: the normal job was fetched after %s", key, ageing, waited)
			}
			w.check()
		}
	}
}

// naive says which job of a queue is next and whether the queue lets it go, by looking
// at every job there is.
func naive(t *rapid.T, v *state.Snapshot, queue string) (next *job.Job, free bool) {
	q, err := v.Queue(queue)
	if err != nil {
		t.Fatal(err)
	}
	if q == nil {
		return nil, false
	}
	resources, err := v.ResourceIndex()
	if err != nil {
		t.Fatal(err)
	}
	ready, active := map[string][]*job.Job{}, map[string]uint64{}
	for j, err := range v.Jobs() {
		if err != nil {
			t.Fatal(err)
		}
		key := j.FairnessKey
		switch {
		case j.Queue != queue:
		case j.State == job.Pending:
			ready[key] = append(ready[key], j)
		case j.State == job.Active:
			active[key]++
		}
	}
	best, bestServed := "", int64(0)
	for key := range ready {
		lane, err := v.Lane(queue, key)
		if err != nil {
			t.Fatal(err)
		}
		if q.Lanes > 0 && lane == nil || q.Lanes == 0 && key != "" {
			t.Fatalf("there is no lane for %q", key)
		}
		if r := resources.RuleFor(queue, key); r != nil && (r.Paused || r.MaxConcurrency > 0 && active[key] >= uint64(r.MaxConcurrency) ||
			r.RateLimit > 0 && lane.Rate.Free(r.RateLimit, r.RateWindowMs, v.Head().ClockNs) == 0) {
			continue
		}
		if next == nil || lane.ServedNs < bestServed || lane.ServedNs == bestServed && key < best {
			best, bestServed = key, lane.GetServedNs()
			next = slices.MinFunc(ready[key], func(a, b *job.Job) int {
				at := func(j *job.Job) int64 { return int64(j.Priority)*q.AgeingMs + job.ID(j.Id).UnixMs() }
				if q.AgeingMs > 0 {
					return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.Number, b.Number))
				}
				return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Number, b.Number))
			})
		}
	}
	running := uint64(0)
	for _, n := range active {
		running += n
	}
	free = next != nil && !q.Paused && q.RateFree(v.Head().ClockNs) > 0 && (q.MaxConcurrency == 0 || running < uint64(q.MaxConcurrency))
	return next, free
}

// TestLanesProperty plays any actions on jobs with keys and compares each fetch, and the number of fetchable
// jobs, with a search over all jobs. The store is reopened in between, all counts are recounted, and a replica
// that was restarted after each entry must be the same byte for byte.
func TestLanesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, dir: t.TempDir(), clockNs: epochNs}
		w.open()
		defer func() { w.store.Close() }()
		h := &havocLanes{world: w, rt: rt}
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			h.step()
			h.compare()
		}
		if rapid.IntRange(0, 9).Draw(rt, "replica") == 0 {
			w.checkReplica()
		}
	})
}

type havocLanes struct {
	*world
	rt     *rapid.T
	leased []*op.Leased
	ids    [][]byte
}

func (h *havocLanes) draw(what string, from ...string) string {
	return rapid.SampledFrom(from).Draw(h.rt, what)
}

func (h *havocLanes) step() {
	queue, key := h.draw("queue", "q", "q", "q", "r"), h.draw("key", "", "a", "b", "c", "d")
	n := rapid.IntRange(1, 4).Draw(h.rt, "n")
	h.clockNs += int64(rapid.IntRange(0, 3000).Draw(h.rt, "ms")) * 1e6
	switch what := h.draw("what", "enqueue", "enqueue", "enqueue", "fetch", "fetch", "fetch", "end", "end", "rule", "unrule", "queue", "move", "cancel", "restart", "replenish", "promote"); what {
	case "enqueue":
		weight := uint32(rapid.IntRange(0, 3).Draw(h.rt, "weight"))
		o := h.keyed(queue, key, weight, n)
		for _, nj := range o.Jobs {
			nj.Priority = uint32(rapid.IntRange(0, 2).Draw(h.rt, "priority"))
			if rapid.IntRange(0, 5).Draw(h.rt, "later") == 0 {
				nj.ScheduledNs = h.clockNs + 1e9
			}
		}
		h.ids = append(h.ids, o.Meta.Ids...)
		h.apply(o)
	case "fetch":
		h.leased = append(h.leased, one[*op.FetchResult](h.world, h.fetch(queue, uint32(n))).Jobs...)
	case "end":
		h.endSome(n)
	case "rule":
		r := &state.LimitRule{Queue: queue, Key: h.draw("ruled", "a", "b", "*"), MaxConcurrency: uint32(rapid.IntRange(0, 2).Draw(h.rt, "most"))}
		if rapid.Bool().Draw(h.rt, "rated") {
			r.RateLimit, r.RateWindowMs = uint32(rapid.IntRange(1, 3).Draw(h.rt, "rate")), int64(rapid.IntRange(1000, 5000).Draw(h.rt, "window"))
		}
		r.Paused = rapid.IntRange(0, 4).Draw(h.rt, "paused") == 0
		h.apply(h.rule(r))
	case "unrule":
		h.apply(unruled(queue, h.draw("ruled", "a", "b", "*")))
	case "queue":
		o := &op.SetQueue{Queue: queue, Paused: val(rapid.IntRange(0, 4).Draw(h.rt, "paused") == 0)}
		o.AgeingMs = val(int64(rapid.IntRange(0, 2).Draw(h.rt, "ageing")) * 1000)
		o.MaxConcurrency = val(uint32(rapid.IntRange(0, 4).Draw(h.rt, "most")))
		o.MaxLength, o.Overflow = val(uint64(rapid.SampledFrom([]int{0, 0, 6}).Draw(h.rt, "length"))), val(job.Overflow_OVERFLOW_DROP_OLDEST)
		h.apply(o)
	case "replenish":
		h.apply(&op.Replenish{Queues: []string{queue}})
	case "restart":
		h.restart()
	default:
		h.toSome(what, queue, n)
	}
}

// toSome acts on some jobs in any state.
func (h *havocLanes) toSome(what, queue string, n int) {
	if len(h.ids) == 0 {
		return
	}
	var ids [][]byte
	for range n {
		if id := rapid.SampledFrom(h.ids).Draw(h.rt, "job"); !slices.ContainsFunc(ids, func(b []byte) bool { return string(b) == string(id) }) {
			ids = append(ids, id)
		}
	}
	switch what {
	case "move":
		h.apply(&op.MoveJobs{Meta: &op.Meta{}, JobIds: ids, Queue: queue})
	case "cancel":
		h.apply(&op.CancelJobs{Meta: &op.Meta{}, JobIds: ids})
	default:
		h.apply(&op.Promote{JobIds: ids})
	}
}

// endSome ends attempts, each in another way.
func (h *havocLanes) endSome(n int) {
	for ; n > 0 && len(h.leased) > 0; n-- {
		at := rapid.IntRange(0, len(h.leased)-1).Draw(h.rt, "at")
		l := h.leased[at]
		h.leased = slices.Delete(h.leased, at, at+1)
		proof := &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}
		switch h.draw("end", "ack", "fail", "undelivered", "shutdown", "reclaim") {
		case "ack":
			h.apply(ack(l))
		case "fail":
			h.apply(&op.Fail{Items: []*op.FailItem{{Proof: proof}}})
		case "undelivered":
			h.apply(&op.Fail{Items: []*op.FailItem{{Proof: proof, Reason: op.FailReason_FAIL_REASON_UNDELIVERED}}})
		case "shutdown":
			h.apply(&op.Fail{Items: []*op.FailItem{{Proof: proof, Reason: op.FailReason_FAIL_REASON_SHUTDOWN}}})
		default:
			h.clockNs += 2 * job.DefaultLease.Nanoseconds()
			h.apply(&op.Reclaim{JobIds: [][]byte{l.Id}})
		}
	}
}

// compare fetches a job of each queue and wants the one that a plain search finds; it is
// given back.
func (h *havocLanes) compare() {
	for _, queue := range []string{"q", "r"} {
		h.apply(&op.Replenish{Queues: []string{queue}}) // time alone makes jobs fetchable
		v := h.store.Snapshot()
		next, free := naive(h.rt, v, queue)
		if err := v.Check(); err != nil {
			h.rt.Fatal(err)
		}
		v.Close()
		if n := h.store.Fetchable(queue); n > 0 != free {
			h.rt.Fatalf("queue %s says %d fetchable; is one: %v", queue, n, free)
		}
		got := one[*op.FetchResult](h.world, h.fetch(queue, 1)).Jobs
		switch {
		case len(got) == 1 != free:
			h.rt.Fatalf("queue %s: %d jobs were fetched; is one fetchable: %v", queue, len(got), free)
		case free && string(got[0].Id) != string(next.Id):
			h.rt.Fatalf("queue %s: fetched %s, next is %s", queue, job.ID(got[0].Id), job.ID(next.Id))
		}
		h.leased = append(h.leased, got...)
	}
}

// The rate limit of a key releases its next job exactly at its time, and the store asks for a replenishment
// at that time.
func TestLanesWakeInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(w.rule(&state.LimitRule{Queue: "q", Key: "k", RateLimit: 1, RateWindowMs: 10_000}), w.keyed("q", "k", 0, 2))
	var asked int64
	w.store.SetHooks(state.Hooks{OnReplenish: func(dueNs int64) { asked = dueNs }})
	if n := len(one[*op.FetchResult](w, w.fetch("q", 2)).Jobs); n != 1 {
		t.Fatalf("%d jobs go at once", n)
	}
	v := w.store.Snapshot()
	l, err := v.Lane("q", "k")
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	dueNs := l.Rate.FreeAt(1, 10_000, w.clockNs)
	if asked != dueNs {
		t.Errorf("the store asks to be looked at at %d, and the rate lets a job go at %d", asked, dueNs)
	}
	w.clockNs = dueNs - 1
	if n := len(one[*op.FetchResult](w, w.fetch("q", 2)).Jobs); n != 0 {
		t.Errorf("%d jobs go before their time", n)
	}
	w.clockNs = dueNs
	if n := len(one[*op.FetchResult](w, w.fetch("q", 2)).Jobs); n != 1 {
		t.Errorf("%d jobs go in time", n)
	}
}
