package state

import (
	"encoding/binary"
	"maps"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// tokenFor returns the token of the n-th lease of a job.
func tokenFor(job, n int) (t leaseToken) {
	binary.BigEndian.PutUint64(t[:], uint64(job))
	binary.BigEndian.PutUint64(t[8:], uint64(n))
	return t
}

func take(t testing.TB, tx *Tx, job, n int) {
	t.Helper()
	edit(t, tx, idOf(job), grant(tokenFor(job, n)), started)
}

// grant makes a job active under a token.
func grant(token leaseToken) func(j *job.Job) {
	return func(j *job.Job) {
		j.State, j.Attempt, j.Lease = job.Active, j.Attempt+1, &job.Lease{Token: token[:], ExpiresNs: 1000, LengthMs: 1}
	}
}

// A token finds its job from the op that granted it to the op that ended it, and finds no other job. The
// leases in memory always equal those that opening the store would compute.
func TestLeases(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	current := map[leaseToken]job.ID{}
	wantCurrent := func() {
		t.Helper()
		if !maps.Equal(s.leases, leases(current)) {
			t.Fatalf("entry %d: the leases are %x, want %x", s.Head().Index, s.leases, current)
		}
		computed, err := loadLeases(s.gen.db)
		must(t, err)
		if !maps.Equal(s.leases, computed) {
			t.Fatalf("entry %d: the leases are %x, computed %x", s.Head().Index, s.leases, computed)
		}
	}
	update(t, s, func(tx *Tx) {
		for n := 1; n <= 4; n++ {
			create(t, tx, n, "q")
		}
	})
	wantCurrent()
	update(t, s, func(tx *Tx) {
		for n := 1; n <= 3; n++ {
			take(t, tx, n, 1)
			if id, ok := tx.Leased(tokenFor(n, 1)); !ok || id != idOf(n) {
				t.Errorf("in its entry, the lease of job %d is that of %s, %v", n, id, ok)
			}
			current[tokenFor(n, 1)] = idOf(n)
		}
	})
	wantCurrent()
	update(t, s, func(tx *Tx) {
		complete(t, tx, idOf(1))
		edit(t, tx, idOf(2), func(j *job.Job) { j.State = job.Pending }, EventType_EVENT_RETURNED)
		take(t, tx, 2, 2)
		edit(t, tx, idOf(3), func(j *job.Job) { j.Lease.ExpiresNs = 2000 }, EventType_EVENT_RENEWED)
		if _, ok := tx.Leased(tokenFor(1, 1)); ok {
			t.Error("a completed job is leased")
		}
		delete(current, tokenFor(1, 1))
		delete(current, tokenFor(2, 1))
		current[tokenFor(2, 2)] = idOf(2)
	})
	wantCurrent()
	must(t, s.Close())
	s = open(t, fs)
	wantCurrent()

	image, err := s.Image()
	must(t, err)
	old := s
	s = openClosing(t)
	update(t, s, func(tx *Tx) {
		create(t, tx, 9, "q")
		take(t, tx, 9, 1)
	})
	must(t, s.Restore(image))
	wantCurrent()
	must(t, image.Close())
	must(t, old.Close())
}

// BenchmarkOpenWithLeases measures the time that finding the leases adds to opening a store.
func BenchmarkOpenWithLeases(b *testing.B) {
	s := openClosing(b)
	const active = 10_000
	update(b, s, func(tx *Tx) {
		for n := range active {
			create(b, tx, n+1, "q")
			take(b, tx, n+1, 1)
		}
	})
	for b.Loop() {
		if _, err := loadLeases(s.gen.db); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/active, "ns/lease")
}
