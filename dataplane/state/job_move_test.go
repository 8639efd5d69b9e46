package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
)

// read returns the n-th job as the entry sees it.
func read(t testing.TB, tx *Tx, n int) *job.Job {
	j, err := tx.Job(idOf(n))
	if err != nil || j == nil {
		t.Fatalf("job %d is %v, %v", n, j, err)
	}
	return j
}

// wander makes a workload's moves: jobs go to other queues and shards, others arrive.
func wander(t testing.TB, tx *Tx, rng *rand.Rand, n int) {
	t.Helper()
	for range rng.IntN(3) {
		id, ok, err := tx.NextReady(fmt.Sprint("q", rng.IntN(3)))
		must(t, err)
		if !ok {
			continue
		}
		j, err := tx.Job(id)
		must(t, err)
		if rng.IntN(2) == 0 {
			must(t, tx.MoveJob(j, fmt.Sprint("q", rng.IntN(3))))
			continue
		}
		parcel, err := tx.Parcel(j)
		must(t, err)
		must(t, tx.ForwardJob(j, 1, "far"))
		must(t, tx.Send(1, 18, parcel.Blobs[job.Payload].Data))
	}
	if n%4 == 0 {
		j := newJob(n*10+9, fmt.Sprint("q", rng.IntN(3)))
		must(t, tx.PutBlob(j, job.Payload, &job.Blob{Data: []byte("far")}))
		must(t, tx.AdmitJob(j))
		_, last := tx.Inbox(2)
		must(t, tx.PutInbox(2, testIncarnation, last+1))
	}
}

// A job that moves leaves neither a counter nor a key in its old queue, in any state. Its number stays, and
// the feed names both queues.
func TestMoveJob(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		for n := 1; n <= 4; n++ {
			create(t, tx, n, "q")
		}
		create(t, tx, 5, "r")
		edit(t, tx, idOf(2), func(j *job.Job) { j.State, j.ScheduledNs = job.Scheduled, 9 }, scheduled)
		edit(t, tx, idOf(3), func(j *job.Job) { j.State = job.Dead }, died)
	})
	update(t, s, func(tx *Tx) {
		for n := 1; n <= 4; n++ {
			must(t, tx.MoveJob(read(t, tx, n), "r"))
		}
		must(t, tx.DeleteQueue("q"))
		create(t, tx, 6, "q") // a new queue of the same name has nothing of the old one
		if got := nextReady(t, tx, "q"); got != "6" {
			t.Errorf("next of q is %s", got)
		}
		if got := nextReady(t, tx, "r"); got != "1" {
			t.Errorf("next of r is %s", got)
		}
	})
	check(t, s)
	v := s.Snapshot()
	defer v.Close()
	r, err := v.Queue("r")
	must(t, err)
	if want := (&Queue{InState: []uint64{0, 1, 3, 0, 0, 0, 0, 1, 0}}); !slices.Equal(r.InState, want.InState) || r.Enqueued != 5 || r.Dead != 0 {
		t.Errorf("queue r is %v", r)
	}
	var moved []string
	for item, err := range v.Feed(8) {
		must(t, err)
		for _, e := range item.Entry.Events {
			moved = append(moved, fmt.Sprintf("%s %d %s<%s", strings.TrimPrefix(e.Type.String(), "EVENT_"), e.JobNumber, e.Queue, e.FromQueue))
		}
	}
	if got := strings.Join(moved, " "); got != "MOVED 1 r<q MOVED 2 r<q MOVED 3 r<q MOVED 4 r<q QUEUE_DELETED 0 q< ENQUEUED 6 q<" {
		t.Errorf("the feed says %s", got)
	}
}

// A parcel holds a job's blobs and errors, both those that the entry wrote and those in the store.
func TestParcel(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	failing := func(tx *Tx, n int, attempt uint32, text string) {
		j := read(t, tx, n)
		must(t, tx.PutError(j, &job.AttemptError{Attempt: attempt, Error: text}))
		must(t, tx.PutJob(j, failed))
	}
	blob := func(tx *Tx, n int, kind job.BlobKind, text string) {
		j := read(t, tx, n)
		must(t, tx.PutBlob(j, kind, &job.Blob{Data: []byte(text)}))
		must(t, tx.PutJob(j))
	}
	want := func(tx *Tx, n int, want string) {
		t.Helper()
		p, err := tx.Parcel(read(t, tx, n))
		must(t, err)
		var got []string
		for kind, b := range p.Blobs {
			if b != nil {
				got = append(got, fmt.Sprintf("%d:%s", kind, b.Data))
			}
		}
		for _, e := range p.Errors {
			got = append(got, fmt.Sprintf("!%d:%s", e.Attempt, e.Error))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("job %d has %v, want %s", n, got, want)
		}
	}
	update(t, s, func(tx *Tx) {
		create(t, tx, 1, "q")
		create(t, tx, 2, "q")
		blob(tx, 1, job.Payload, "p")
		want(tx, 1, "0:p")
		blob(tx, 1, job.Checkpoint, "old")
		failing(tx, 1, 1, "one")
		want(tx, 1, "0:p 2:old !1:one")
		want(tx, 2, "")
	})
	update(t, s, func(tx *Tx) { want(tx, 1, "0:p 2:old !1:one") })
	update(t, s, func(tx *Tx) {
		blob(tx, 1, job.Checkpoint, "new")
		want(tx, 1, "0:p 2:new !1:one")
		failing(tx, 1, 1, "again")
		failing(tx, 1, 3, "three")
		want(tx, 1, "0:p 2:new !1:again !3:three")
		must(t, tx.ForwardJob(read(t, tx, 1), 1, "far"))
		back := newJob(1, "q") // it comes back with less
		must(t, tx.PutBlob(back, job.Payload, &job.Blob{Data: []byte("q")}))
		must(t, tx.AdmitJob(back))
		want(tx, 1, "0:q")
	})
	update(t, s, func(tx *Tx) { want(tx, 1, "0:q") })
}

// Ops for a shard are numbered without a gap, kept until they are trimmed, and read in pieces. The store
// knows their number and size without reading any, also after a restart.
func TestOutbox(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	defer func() { check(t, s); must(t, s.Close()) }()
	update(t, s, func(tx *Tx) {
		for n := range 5 {
			must(t, tx.Send(7, 18, make([]byte, 10+n)))
		}
		must(t, tx.Send(3, 18, []byte("x")))
	})
	want := func(want string) {
		t.Helper()
		if got := fmt.Sprint(s.Outboxes()); got != want {
			t.Errorf("outboxes %s, want %s", got, want)
		}
	}
	rows := func(shard uint32, from uint64, ops int, bytes uint64) (seqs []uint64) {
		t.Helper()
		found, err := s.Outgoing(shard, from, ops, bytes)
		must(t, err)
		for _, row := range found {
			seqs = append(seqs, row.Seq)
		}
		return seqs
	}
	want("[{3 1 2 1} {7 1 6 60}]")
	for _, c := range []struct {
		from  uint64
		ops   int
		bytes uint64
		want  []uint64
	}{
		{0, 9, 1000, []uint64{1, 2, 3, 4, 5}}, {3, 9, 1000, []uint64{3, 4, 5}}, {6, 9, 1000, nil},
		{1, 2, 1000, []uint64{1, 2}}, {1, 9, 21, []uint64{1, 2}}, {1, 9, 20, []uint64{1}}, {5, 0, 0, []uint64{5}},
	} {
		if got := rows(7, c.from, c.ops, c.bytes); !slices.Equal(got, c.want) {
			t.Errorf("from %d, %d ops, %d bytes: %v, want %v", c.from, c.ops, c.bytes, got, c.want)
		}
	}
	update(t, s, func(tx *Tx) { must(t, tx.TrimOutbox(7, 3)); must(t, tx.Send(7, 18, nil)) })
	want("[{3 1 2 1} {7 4 7 27}]")
	if got := rows(7, 1, 9, 1000); !slices.Equal(got, []uint64{4, 5, 6}) {
		t.Errorf("after the trim: %v", got)
	}
	check(t, s)
	must(t, s.Close())
	s = open(t, fs)
	want("[{3 1 2 1} {7 4 7 27}]")
	update(t, s, func(tx *Tx) { must(t, tx.TrimOutbox(7, 6)); must(t, tx.TrimOutbox(3, 1)) })
	want("[{3 2 2 0} {7 7 7 0}]")
	update(t, s, func(tx *Tx) { must(t, tx.Send(3, 18, []byte("y"))) })
	if got := rows(3, 0, 9, 9); !slices.Equal(got, []uint64{2}) {
		t.Errorf("the number after all were trimmed: %v", got)
	}
}

// At a bound CanSend reports no room, but Send accepts an op all the same.
func TestOutboxIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ops, bytes uint64
		fits       int
	}{{3, 1000, 3}, {100, 20, 2}, {100, 21, 3}} {
		s, err := Open("store", Options{FS: vfs.NewMem(), outboxOps: c.ops, outboxBytes: c.bytes})
		must(t, err)
		tx := begin(s)
		n := 0
		for ; tx.CanSend(1); n++ {
			must(t, tx.Send(1, 18, make([]byte, 10)))
		}
		if n != c.fits || !tx.CanSend(2) {
			t.Errorf("%d ops and %d bytes had room for %d, for another shard %v", c.ops, c.bytes, n, tx.CanSend(2))
		}
		must(t, tx.Send(1, 18, nil))
		if got := tx.Outbox(1).Ops(); got != uint64(n)+1 || tx.CanSend(1) {
			t.Errorf("%d ops wait after one more, room: %v", got, tx.CanSend(1))
		}
		must(t, s.Close())
	}
}

func TestInbox(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	defer func() { check(t, s); must(t, s.Close()) }()
	want := func(wantOf entry.Incarnation, want uint64) {
		t.Helper()
		update(t, s, func(tx *Tx) {
			if of, last := tx.Inbox(4); of != wantOf || last != want {
				t.Errorf("the inbox has %d of %x, want %d of %x", last, of, want, wantOf)
			}
		})
	}
	want(entry.Incarnation{}, 0)
	update(t, s, func(tx *Tx) { must(t, tx.PutInbox(4, entry.Incarnation{9}, 3)) })
	want(entry.Incarnation{9}, 3)
	update(t, s, func(tx *Tx) { must(t, tx.PutInbox(4, entry.Incarnation{8}, 1)) })
	must(t, s.Close())
	s = open(t, fs)
	want(entry.Incarnation{8}, 1)
}

// A forward lasts until its job is back, over restarts. A lookup costs nothing in a store that no job ever
// left.
func TestForwards(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	defer func() { check(t, s); must(t, s.Close()) }()
	want := func(want string) {
		t.Helper()
		f, err := s.Forwarded(idOf(1))
		must(t, err)
		got := "none"
		if f != nil {
			got = fmt.Sprintf("%d %s %d", f.Shard, f.Queue, f.Move)
		}
		if got != want {
			t.Errorf("the forward is %s, want %s", got, want)
		}
		update(t, s, func(tx *Tx) {
			inTx, err := tx.Forwarded(idOf(1))
			must(t, err)
			if (inTx == nil) != (f == nil) {
				t.Errorf("in a Tx it is %v", inTx)
			}
		})
	}
	want("none")
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	want("none")
	update(t, s, func(tx *Tx) {
		j := read(t, tx, 1)
		must(t, tx.ForwardJob(j, 5, "far"))
		if j.Queue != "far" || j.Moves != 1 || j.Number != 0 {
			t.Errorf("it goes as %v", j)
		}
		if gone, err := tx.Job(idOf(1)); err != nil || gone != nil {
			t.Errorf("it is still there: %v, %v", gone, err)
		}
	})
	want("5 far 1")
	must(t, s.Close())
	s = open(t, fs)
	want("5 far 1")
	update(t, s, func(tx *Tx) {
		j := newJob(1, "r")
		j.Moves = 2
		must(t, tx.AdmitJob(j))
	})
	want("none")
	update(t, s, func(tx *Tx) { must(t, tx.ForwardJob(read(t, tx, 1), 6, "further")) })
	want("6 further 3")
}

func TestShardOf(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]uint32{"ns/0": 0, "ns/17": 17, "g": 0, "": 0, "ns/": 0, "ns/x": 0, "ns/4294967295": 4294967295, "ns/4294967296": 0} {
		if got := ShardOf(group); got != want {
			t.Errorf("%q is shard %d, want %d", group, got, want)
		}
	}
}
