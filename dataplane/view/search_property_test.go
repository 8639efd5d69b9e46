package view

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// hostile are names and texts that would be syntax if they became part of a statement, a path or a pattern.
var hostile = []string{
	"plain", `a.b`, `"`, `'`, `a"b`, `$[0]`, `[0]`, `$."x"`, "%", "_", "100%", `\`, `,`, `":"`, `{"a":"b"}`, "' OR 1=1 --", "ü", "<&>", "\u2028",
	"', payload) --", "*", "NEAR(", "a*b", `?1`, ":v", "alpha", "beta gamma", "\t", "0", "true", "null",
}

// zoo is a shard with jobs of every kind, and their current documents.
type zoo struct {
	*shard
	r    *rand.Rand
	ids  []job.ID
	docs map[job.ID]api.Job
}

func newZoo(t testing.TB, seed uint64, jobs int) *zoo {
	z := &zoo{shard: newShard(t), r: rand.New(rand.NewPCG(seed, 7)), docs: map[job.ID]api.Job{}}
	for range jobs {
		z.bear()
	}
	for range 3 * jobs {
		z.stir(z.ids[z.r.IntN(len(z.ids))])
	}
	z.settle()
	return z
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

// bear creates a job.
func (z *zoo) bear() {
	var id job.ID
	z.commit(func(tx *state.Tx) {
		queue := fmt.Sprint("q", z.r.IntN(4))
		tx.EnsureQueue(queue)
		j := z.newJob(tx, queue)
		j.Priority = uint32(z.r.IntN(job.Priorities))
		z.enrich(tx, z.r, j)
		if j.Batch != nil {
			j.Batch.Counted = true // so that the job may settle
		}
		if j.Chain != nil {
			j.Chain.Ended = true
		}
		j.Tags = nil // drop the tags that enrich added
		for range z.r.IntN(4) {
			name := pick(z.r, hostile)
			if !slices.ContainsFunc(j.Tags, func(p *job.Pair) bool { return p.Name == name }) {
				j.Tags = append(j.Tags, &job.Pair{Name: name, Value: pick(z.r, hostile)})
			}
		}
		text, err := jsonText(map[string]any{"n": z.r.IntN(5), "text": pick(z.r, hostile), pick(z.r, hostile): "word" + fmt.Sprint(z.r.IntN(3))})
		must(z.t, err)
		must(z.t, tx.PutBlob(j, job.Payload, payload(text)))
		must(z.t, tx.CreateJob(j, evEnqueued))
		id = job.ID(j.Id)
	})
	z.ids = append(z.ids, id)
	z.look(id)
}

// look records the current document of a job.
func (z *zoo) look(id job.ID) {
	snapshot := z.store.Snapshot()
	defer func() { must(z.t, snapshot.Close()) }()
	doc, err := Read(snapshot, id)
	must(z.t, err)
	delete(z.docs, id)
	if doc != nil {
		z.docs[id] = *doc
	}
}

// stir moves a job to another state.
func (z *zoo) stir(id job.ID) {
	doc, ok := z.docs[id]
	if !ok {
		return
	}
	switch s, _ := job.ParseState(doc.State); {
	case s == job.Pending || s == job.Scheduled || s == job.Retrying:
		if doc.ScheduledAt == nil && z.r.IntN(3) == 0 {
			return // some jobs are never started
		}
		z.fetch(id, fmt.Sprint("w", z.r.IntN(3)))
	case s == job.Active && z.r.IntN(2) == 0:
		z.ack(id, "")
	case s == job.Active:
		z.fail(id, pick(z.r, []job.State{job.Retrying, job.Dead}), pick(z.r, hostile)+"boom")
	case z.r.IntN(6) == 0:
		z.commit(func(tx *state.Tx) {
			j, err := tx.Job(id)
			must(z.t, err)
			must(z.t, tx.DeleteJob(j, evDeleted))
		})
	}
	z.look(id)
}

func after(t *api.Time, than time.Time) bool  { return t != nil && at(*t).After(than) }
func before(t *api.Time, than time.Time) bool { return t != nil && at(*t).Before(than) }

func at(t api.Time) time.Time {
	v, _, err := t.Parse()
	if err != nil {
		panic(err)
	}
	return v
}

// fits reports whether a document fits a filter.
func fits(q *Query, d *api.Job) bool {
	is := func(got *string, want string) bool { return want == "" || got != nil && *got == want }
	id := func(got *string, prefix string, want job.ID) bool {
		return want == (job.ID{}) || got != nil && *got == idWord(prefix, want)
	}
	within := func(t *api.Time, from, to time.Time) bool {
		return (from.IsZero() || after(t, from)) && (to.IsZero() || before(t, to))
	}
	for name, value := range q.Tags {
		if got, ok := d.Tags[name]; !ok || got != value {
			return false
		}
	}
	ran := q.WorkerID == "" || is(d.WorkerID, q.WorkerID)
	for _, a := range d.Attempts {
		ran = ran || is(a.WorkerID, q.WorkerID)
	}
	wrong := q.ErrorContains == ""
	for _, e := range d.Errors {
		wrong = wrong || strings.Contains(e.Error, q.ErrorContains)
	}
	return ran && wrong &&
		(q.Queue == "" || q.Queue == d.Queue) && (q.Queues == nil || slices.Contains(q.Queues, d.Queue)) &&
		(len(q.States) == 0 || slices.ContainsFunc(q.States, func(s job.State) bool { return s.Word() == d.State })) &&
		(q.Priority == nil || *q.Priority == d.Priority) && strings.HasPrefix(d.ID, q.IDPrefix) &&
		strings.Contains(string(d.Payload), q.PayloadContains) &&
		is(d.UniqueKey, q.UniqueKey) && id(d.BatchID, batchPrefix, q.BatchID) && id(d.ParentID, job.IDPrefix, q.ParentID) && id(d.ChainID, chainPrefix, q.ChainID) &&
		(q.HasErrors == nil || *q.HasErrors == (len(d.Errors) > 0)) &&
		(q.AttemptMin == nil || d.Attempt >= *q.AttemptMin) && (q.AttemptMax == nil || d.Attempt <= *q.AttemptMax) &&
		within(&d.CreatedAt, q.CreatedAfter, q.CreatedBefore) && within(d.ScheduledAt, q.ScheduledAfter, q.ScheduledBefore) &&
		within(d.StartedAt, q.StartedAfter, q.StartedBefore) && within(d.CompletedAt, q.CompletedAfter, q.CompletedBefore) &&
		within(d.ExpireAt, q.ExpireAfter, q.ExpireBefore)
}

// ordered compares two documents in the order of a query.
func ordered(q *Query, a, b *api.Job) int {
	optional := func(a, b *api.Time) (c int, null bool) {
		switch {
		case a == nil && b == nil:
			return 0, false
		case a == nil:
			return 1, true
		case b == nil:
			return -1, true
		}
		return at(*a).Compare(at(*b)), false
	}
	c, null := 0, false
	switch q.Sort {
	case SortPriority:
		c = cmp.Compare(a.Priority, b.Priority)
	case SortAttempt:
		c = cmp.Compare(a.Attempt, b.Attempt)
	case SortStarted:
		c, null = optional(a.StartedAt, b.StartedAt)
	case SortCompleted:
		c, null = optional(a.CompletedAt, b.CompletedAt)
	case SortFailed:
		c, null = optional(a.FailedAt, b.FailedAt)
	}
	if c == 0 {
		c = cmp.Compare(a.ID, b.ID) // ids have the same order as numbers
	}
	if q.Order != Ascending && !null {
		c = -c
	}
	return c
}

// ask draws a query.
func (z *zoo) ask(t *rapid.T) Query {
	some := func(what string) bool { return rapid.IntRange(0, 11).Draw(t, what) == 11 }
	text := func(what string) string { return rapid.SampledFrom(hostile).Draw(t, what) }
	number := func(what string, most int) *int { n := rapid.IntRange(0, most).Draw(t, what); return &n }
	now := z.store.Head().ClockNs
	moment := func(what string) time.Time {
		return time.Unix(0, rapid.Int64Range(0, now+int64(time.Millisecond)).Draw(t, what))
	}
	var q Query
	if some("queue?") {
		q.Queue = fmt.Sprint("q", *number("queue", 4))
	}
	if some("queues?") {
		q.Queues = rapid.SliceOfN(rapid.SampledFrom([]string{"q0", "q1", "q2", "q3", "none", "'"}), 0, 4).Draw(t, "queues")
	}
	if some("states?") {
		q.States = rapid.SliceOfN(rapid.SampledFrom([]job.State{job.Pending, job.Active, job.Completed, job.Dead, job.Retrying, job.Scheduled}), 1, 4).Draw(t, "states")
	}
	if some("priority?") {
		q.Priority = number("priority", job.Priorities-1)
	}
	if some("tags?") {
		q.Tags = map[string]string{text("name"): text("value")}
	}
	if some("prefix?") {
		q.IDPrefix = rapid.SampledFrom(z.ids).Draw(t, "id").String()[:rapid.IntRange(5, idLength).Draw(t, "prefix")]
	}
	if some("contains?") {
		q.PayloadContains = text("contains")
	}
	if some("unique?") {
		q.UniqueKey = fmt.Sprint("key-", *number("key", 60))
	}
	for i, id := range []*job.ID{&q.ParentID, &q.BatchID, &q.ChainID} {
		if some(fmt.Sprint("id ", i)) {
			*id = job.ID(otherID(10*i + 1 + *number("other", 2)))
		}
	}
	if some("worker?") {
		q.WorkerID = fmt.Sprint("w", *number("worker", 3))
	}
	if some("errors?") {
		has := rapid.Bool().Draw(t, "errors")
		q.HasErrors = &has
	}
	if some("error?") {
		q.ErrorContains = text("error")
	}
	if some("min?") {
		q.AttemptMin = number("min", 3)
	}
	if some("max?") {
		q.AttemptMax = number("max", 3)
	}
	for i, at := range []*time.Time{&q.CreatedAfter, &q.CreatedBefore, &q.ScheduledAfter, &q.ScheduledBefore, &q.StartedAfter, &q.StartedBefore,
		&q.CompletedAfter, &q.CompletedBefore, &q.ExpireAfter, &q.ExpireBefore} {
		if some(fmt.Sprint("time ", i)) {
			*at = moment(fmt.Sprint("at ", i))
		}
	}
	q.Sort = rapid.SampledFrom(sorts).Draw(t, "sort")
	q.Order = rapid.SampledFrom([]Order{Ascending, Descending}).Draw(t, "order")
	q.Limit = rapid.SampledFrom([]int{3, 10, 1000}).Draw(t, "limit")
	return q
}

// TestSearchFindsWhatFits compares every filter, sort and cursor with the documents, while other jobs are
// created, changed and deleted, and with small and large limits of the cost of a search.
func TestSearchFindsWhatFits(t *testing.T) {
	t.Parallel()
	z := newZoo(t, 1, 90)
	rapid.Check(t, func(t *rapid.T) {
		q := z.ask(t)
		z.view.limits.search.rows = rapid.SampledFrom([]int{7, 40, searchRows}).Draw(t, "rows")
		z.view.limits.search.few = rapid.SampledFrom([]int{0, 10, maxRange}).Draw(t, "few")
		stirs := rapid.Bool().Draw(t, "stirs")
		var want []api.Job
		for _, d := range z.docs {
			if fits(&q, &d) {
				want = append(want, d)
			}
		}
		fit := len(want)
		moved := map[string]bool{}
		var got []api.Job
		partial := false
		for pages := 0; ; pages++ {
			page, err := z.view.Search(z.t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			partial = partial || page.Partial
			if pages == 0 && (page.Total > int64(fit) || page.Total < int64(fit) && !page.TotalIsEstimate) {
				t.Fatalf("the total is %d (estimate: %v), %d fit", page.Total, page.TotalIsEstimate, fit)
			}
			if page.HasMore && len(page.Jobs) < q.Limit && !page.Partial || page.HasMore != (page.Cursor != "") || len(page.Jobs) > q.Limit {
				t.Fatalf("a page of %d has %d jobs; more: %v, partial: %v (%s), cursor %q", q.Limit, len(page.Jobs), page.HasMore, page.Partial, page.PartialReason, page.Cursor)
			}
			got = append(got, page.Jobs...)
			if q.Cursor = page.Cursor; !page.HasMore {
				break
			}
			if stirs && pages < 5 {
				id := pick(z.r, z.ids)
				moved[id.String()] = true
				z.stir(id)
				z.bear()
				moved[z.ids[len(z.ids)-1].String()] = true
				z.settle()
			}
		}
		still := func(all []api.Job) (ids []string) {
			for _, d := range all {
				if !moved[d.ID] {
					ids = append(ids, d.ID)
				}
			}
			return ids
		}
		slices.SortFunc(want, func(a, b api.Job) int { return ordered(&q, &a, &b) })
		found, wanted := still(got), still(want)
		if partial && q.Sort != SortCreated {
			// Jobs are in order only within each window.
			slices.Sort(found)
			slices.Sort(wanted)
		}
		if !slices.Equal(found, wanted) {
			t.Fatalf("%+v finds\n%q\nwant\n%q", q, found, wanted)
		}
	})
}
