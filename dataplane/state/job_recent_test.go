package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// checkRecent checks that every record in memory equals the store's and that the bounds hold. It returns the
// number of jobs with a record in memory.
func checkRecent(t testing.TB, s *Store) int {
	t.Helper()
	checkPages(t, s, &s.gen.recentPayloads, func(id job.ID) []byte { return appendBlobKey(nil, id, job.Payload) })
	return checkPages(t, s, &s.gen.recentJobs, func(id job.ID) []byte { return appendJobKey(nil, id) })
}

func checkPages(t testing.TB, s *Store, r *recent, key func(id job.ID) []byte) int {
	t.Helper()
	ids := map[job.ID]bool{}
	for i := range r.pages {
		p := &r.pages[i]
		if len(p.bytes)+recordCost*len(p.at) > r.bound || cap(p.bytes) > max(r.bound, leastPage) {
			t.Fatalf("page %d has %d bytes and room for %d, its bound is %d", i, len(p.bytes), cap(p.bytes), r.bound)
		}
		for id := range p.at {
			ids[id] = true
		}
	}
	for id := range ids {
		stored, closer, err := s.gen.db.Get(key(id))
		if err != nil {
			t.Fatalf("record %x is kept: %v", key(id), err)
		}
		if got := r.record(id); !bytes.Equal(got, stored) {
			t.Fatalf("record %x is kept as %x, the store has %x", key(id), got, stored)
		}
		must(t, closer.Close())
	}
	return len(ids)
}

// TestRecentIsWhatIsStored takes jobs through their lives, with room for a few records, for some, and for
// all.
func TestRecentIsWhatIsStored(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{100, 1000, 1 << 20} {
		rng := rand.New(rand.NewPCG(1, uint64(bound)))
		s := openClosing(t)
		s.gen.recentJobs.bound, s.gen.recentPayloads.bound = bound, bound
		most := 0
		for range 300 {
			update(t, s, func(tx *Tx) {
				for range 1 + rng.IntN(5) {
					liveOn(t, tx, idOf(1+rng.IntN(40)), rng.IntN(4))
				}
			})
			most = max(most, checkRecent(t, s))
		}
		if least := min(bound/200, 20); most < least {
			t.Errorf("%d records at most are kept in pages of %d bytes, %d would fit", most, bound, least)
		}
	}
}

// liveOn takes a job to its next state, or creates it.
func liveOn(t *testing.T, tx *Tx, id job.ID, how int) {
	t.Helper()
	j, err := tx.Job(id)
	must(t, err)
	switch {
	case j == nil:
		create(t, tx, int(id[15]), "q")
	case j.State == job.Pending:
		activate(t, tx, id, latest-1)
	case j.State == job.Active && how == 0:
		edit(t, tx, id, func(j *job.Job) { j.State, j.Lease = job.Pending, nil }, promoted)
	case j.State == job.Active:
		complete(t, tx, id)
	case how == 0:
		must(t, tx.DeleteJob(j, EventType_EVENT_DELETED))
	case how == 1:
		edit(t, tx, id, func(j *job.Job) { j.State, j.Lease = job.Pending, nil }, retrying)
	case how == 2:
		edit(t, tx, id, func(j *job.Job) { must(t, tx.DeleteBlob(j, job.Payload)) })
	default:
		edit(t, tx, id, func(j *job.Job) { putPayload(t, tx, j, j.State.Word()) })
	}
}

func putPayload(t *testing.T, tx *Tx, j *job.Job, text string) {
	t.Helper()
	must(t, tx.PutBlob(j, job.Payload, &job.Blob{Data: []byte(text)}))
}

// TestRecentOfASnapshot changes a job and its payload after a snapshot. A reader of the snapshot must not see
// the change, and a reader of the store must. Both see the unchanged job alike.
func TestRecentOfASnapshot(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	now := 1
	change := func(n int) {
		update(t, s, func(tx *Tx) {
			edit(t, tx, idOf(n), func(j *job.Job) { j.Attempt = uint32(now); putPayload(t, tx, j, fmt.Sprint(now)) })
		})
	}
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q"); create(t, tx, 2, "q") })
	change(1)
	change(2)
	v := s.Snapshot()
	defer func() { must(t, v.Close()) }()
	frozen, err := v.JobIterator()
	must(t, err)
	defer func() { must(t, frozen.Close()) }()
	live, err := s.JobReader()
	must(t, err)
	defer func() { must(t, live.Close()) }()
	now = 2
	change(2)

	for _, c := range []struct {
		name string
		read Reader
		n    int
		want uint32
	}{{"snapshot", frozen, 1, 1}, {"snapshot", frozen, 2, 1}, {"reused", live, 1, 1}, {"reused", live, 2, 2}, {"store", s, 1, 1}, {"store", s, 2, 2}} {
		j, err := c.read.Job(idOf(c.n))
		must(t, err)
		payload, err := c.read.Blob(idOf(c.n), job.Payload)
		must(t, err)
		if j.Attempt != c.want || string(payload.Data) != fmt.Sprint(c.want) {
			t.Errorf("%s: job %d has attempt %d and payload %s, want %d", c.name, c.n, j.Attempt, payload.Data, c.want)
		}
	}
}

// TestRecentIsAsOfTheHead reads a job beside commits that each change it. A read must return the job as its
// snapshot has it, and not older than a head that was seen before.
func TestRecentIsAsOfTheHead(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	atHead := func(j *job.Job, tx *Tx) { j.Attempt = uint32(tx.Head().Index) }
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	update(t, s, func(tx *Tx) { edit(t, tx, idOf(1), func(j *job.Job) { atHead(j, tx) }) })
	var readers sync.WaitGroup
	ended := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				v := s.Snapshot()
				sweep, err := v.JobIterator()
				must(t, err)
				frozen, err := sweep.Job(idOf(1))
				must(t, err)
				must(t, errors.Join(sweep.Close(), v.Close()))
				least := s.Applied().Index
				live, err := s.Job(idOf(1))
				must(t, err)
				if uint64(frozen.Attempt) != v.Head().Index || uint64(live.Attempt) < least {
					t.Errorf("of entry %d it is in the snapshot of %d, and of %d when %d was applied", frozen.Attempt, v.Head().Index, live.Attempt, least)
					return
				}
			}
		})
	}
	for range 2000 {
		update(t, s, func(tx *Tx) { edit(t, tx, idOf(1), func(j *job.Job) { atHead(j, tx) }) })
	}
	close(ended)
	readers.Wait()
}

// TestRecentBesideReaders reads jobs while entries are applied and the pages turn.
func TestRecentBesideReaders(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	s.gen.recentJobs.bound, s.gen.recentPayloads.bound = 2000, 1000
	update(t, s, func(tx *Tx) {
		for n := range 40 {
			j := newJob(n, "q")
			putPayload(t, tx, j, fmt.Sprint("payload ", n))
			must(t, tx.CreateJob(j, enqueued))
		}
	})
	var readers sync.WaitGroup
	ended := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for n := 0; ; n = (n + 1) % 40 {
				select {
				case <-ended:
					return
				default:
				}
				j, err := s.Job(idOf(n))
				if err != nil || job.ID(j.Id) != idOf(n) {
					t.Errorf("job %d is %v, %v", n, j, err)
					return
				}
				b, err := s.Blob(idOf(n), job.Payload)
				if err != nil || string(b.Data) != fmt.Sprint("payload ", n) {
					t.Errorf("payload %d is %v, %v", n, b, err)
					return
				}
			}
		})
	}
	for i := range 500 {
		update(t, s, func(tx *Tx) {
			edit(t, tx, idOf(i%40), func(j *job.Job) { j.Attempt++; putPayload(t, tx, j, fmt.Sprint("payload ", i%40)) })
		})
	}
	close(ended)
	readers.Wait()
}

// TestRecentHasOnlyCommits changes a job without putting it, and in an entry that is never committed. The
// next entry must not see the change.
func TestRecentHasOnlyCommits(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	id := idOf(1)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	update(t, s, func(tx *Tx) { read(t, tx, 1).Attempt = 7 })
	update(t, s, func(tx *Tx) {
		if j := read(t, tx, 1); j.Attempt != 0 {
			t.Errorf("attempt %d, which nobody has put", j.Attempt)
		}
	})
	tx := begin(s)
	activate(t, tx, id, 5)
	create(t, tx, 2, "q")
	cause := errors.New("impossible")
	tx.fail(cause)
	if err := tx.Commit(); !errors.Is(err, cause) {
		t.Errorf("commit: %v", err)
	}
	if n := checkRecent(t, s); n != 1 {
		t.Errorf("%d records are kept after an entry that failed", n)
	}
	must(t, s.Close())
}

// TestRecentOfARestore replaces the content of a store by another store's, in which the same job is
// different.
func TestRecentOfARestore(t *testing.T) {
	t.Parallel()
	from, to := openClosing(t), openClosing(t)
	update(t, to, func(tx *Tx) { create(t, tx, 1, "q"); create(t, tx, 2, "q") })
	update(t, from, func(tx *Tx) { create(t, tx, 1, "other") })
	must(t, to.Restore(copyOf(t, from)))
	if n := checkRecent(t, to); n != 0 {
		t.Errorf("%d records are kept of what was there before", n)
	}
	update(t, to, func(tx *Tx) {
		if j := read(t, tx, 1); j.Queue != "other" {
			t.Errorf("the job is in queue %s", j.Queue)
		}
		if j, err := tx.Job(idOf(2)); j != nil || err != nil {
			t.Errorf("a job is there that was before: %v, %v", j, err)
		}
	})
}

// TestReadAhead asks a reopened store for its ready jobs. The first question must read many records ahead,
// must not undo the entry's own changes, and no record may be read twice.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s := open(t, disk)
	const jobs = 2*aheadOf + 10
	update(t, s, func(tx *Tx) {
		for n := range jobs {
			create(t, tx, jobs-n, "q") // so that ids fall as numbers rise
		}
	})
	must(t, s.Close())
	s = open(t, disk)
	tx := begin(s)
	edit(t, tx, idOf(jobs), func(j *job.Job) { j.Attempt = 3 })
	asked := 0
	for {
		id, ok, err := tx.NextReady("q")
		must(t, err)
		if !ok {
			break
		}
		if asked == 0 {
			if n := checkRecent(t, s); n != aheadOf-1 { // all but the one that the entry has
				t.Errorf("%d records are read ahead", n)
			}
		}
		if id != idOf(jobs-asked) {
			t.Fatalf("job %x is the next, after %d", id, asked)
		}
		if j, err := tx.Job(id); err != nil || asked == 0 && j.Attempt != 3 {
			t.Fatalf("job %v: %v", j, err)
		}
		activate(t, tx, id, latest-1)
		asked++
	}
	if asked != jobs {
		t.Errorf("%d jobs were ready", asked)
	}
	must(t, tx.Commit())
	if n := checkRecent(t, s); n != jobs {
		t.Errorf("%d records are kept of %d active jobs", n, jobs)
	}
	check(t, s)
	must(t, s.Close())
}

// TestDecodedRoom decodes records into the room prepared for them. A field that the record lacks must stay
// absent, because the record would otherwise change when it is written again.
func TestDecodedRoom(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]*job.Job{
		"bare":    {Id: make([]byte, 16)},
		"usual":   {Id: make([]byte, 16), Retry: job.NewRetry(), History: []byte{1, 2, 3}},
		"history": {Id: make([]byte, 16), Retry: job.NewRetry(), History: make([]byte, 1000)},
	} {
		record, err := j.MarshalVT()
		must(t, err)
		got := newRoom()
		must(t, got.UnmarshalVT(record))
		again, err := tidyRoom(got).MarshalVT()
		must(t, err)
		if !bytes.Equal(record, again) || (got.Retry == nil) != (j.Retry == nil) || (got.History == nil) != (j.History == nil) {
			t.Errorf("%s: %v becomes %v", name, j, got)
		}
	}
}

// TestRecentOfALargeRecord replaces a record that fits into a page by one that does not.
func TestRecentOfALargeRecord(t *testing.T) {
	t.Parallel()
	r := recent{bound: 10 + recordCost}
	r.put(idOf(1), make([]byte, 10), 1)
	if r.record(idOf(1)) == nil {
		t.Error("a record as large as a page is not kept")
	}
	r.put(idOf(1), make([]byte, 11), 1)
	if r.record(idOf(1)) != nil {
		t.Error("the record from before is still there")
	}
}
