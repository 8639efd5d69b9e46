package state

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
)

// A JobReader returns the same as the store, independent of its earlier reads.
func TestReuse(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{0, 1 << 20} { // bound of the records kept in memory
		reuse(t, bound)
	}
}

func reuse(t *testing.T, bound int) {
	s := openClosing(t)
	s.gen.recentJobs.bound, s.gen.recentPayloads.bound = bound, bound
	const jobs = 30
	for n := range jobs {
		tx := begin(s)
		tx.EnsureQueue("q")
		j := newJob(n, "q")
		if n%2 == 0 {
			must(t, tx.PutBlob(j, job.Payload, &job.Blob{Data: bytes.Repeat([]byte{byte(n)}, n)}))
			j.Tags, j.History = []*job.Pair{{Name: "n", Value: "v"}}, []byte{byte(n)}
		}
		if n%3 == 0 {
			j.Retry = &job.Retry{MaxAttempts: uint32(n)}
		} else {
			j.Retry = nil
		}
		must(t, tx.CreateJob(j, enqueued))
		must(t, tx.Commit())
		if n == jobs/2 {
			must(t, s.Flush())
		}
	}
	read, err := s.JobReader()
	must(t, err)
	defer func() { must(t, read.Close()) }()
	for n := range jobs + 1 {
		got, err := read.Job(idOf(n))
		must(t, err)
		want, err := s.Job(idOf(n))
		must(t, err)
		if (got == nil) != (want == nil) {
			t.Fatalf("job %d is %v, want %v", n, got, want)
		}
		if want != nil {
			if want.Retry == nil {
				want.Retry = &job.Retry{}
			}
			if want.Lease == nil {
				want.Lease = &job.Lease{}
			}
			if !proto.Equal(got, want) {
				t.Errorf("job %d is %v, want %v", n, got, want)
			}
		}
		blob, err := read.Blob(idOf(n), job.Payload)
		must(t, err)
		stored, err := s.Blob(idOf(n), job.Payload)
		must(t, err)
		if (blob == nil) != (stored == nil) || !proto.Equal(blob, stored) {
			t.Errorf("the payload of job %d is %v, want %v", n, blob, stored)
		}
	}
}

// A reader sees a blob that is newer than the start of its reading if the record lists it, because a worker
// may put its first checkpoint while a repeated fetch returns its lease again.
func TestReuseOfALaterBlob(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	read, err := s.JobReader()
	must(t, err)
	defer func() { must(t, read.Close()) }()
	update(t, s, func(tx *Tx) {
		j, err := tx.Job(idOf(1))
		must(t, err)
		must(t, tx.PutBlob(j, job.Checkpoint, &job.Blob{Data: []byte("{}")}))
		must(t, tx.PutJob(j))
	})
	j, err := read.Job(idOf(1))
	must(t, err)
	blob, err := read.Blob(idOf(1), job.Checkpoint)
	must(t, err)
	if j.Blobs&(1<<job.Checkpoint) == 0 || blob == nil || string(blob.Data) != "{}" {
		t.Errorf("the job has blobs %b, its checkpoint is %v", j.Blobs, blob)
	}
}
