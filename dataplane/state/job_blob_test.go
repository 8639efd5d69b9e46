package state

import (
	"fmt"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// Blob returns a blob as the earlier ops of the entry left it, both in the entry that put it and in later
// ones.
func TestBlobInAnEntry(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	want := func(tx *Tx, n int, kind job.BlobKind, want string) {
		t.Helper()
		b, err := tx.Blob(read(t, tx, n), kind)
		must(t, err)
		if (b == nil) != (want == "") || string(b.GetData()) != want {
			t.Errorf("blob %d of job %d is %v, want %q", kind, n, b, want)
		}
	}
	put := func(tx *Tx, j *job.Job, data string) {
		must(t, tx.PutBlob(j, job.ChainConfig, &job.Blob{Data: []byte(data)}))
	}
	update(t, s, func(tx *Tx) {
		j := newJob(1, "q")
		put(tx, j, "first")
		must(t, tx.CreateJob(j, enqueued))
		create(t, tx, 2, "q")
		want(tx, 1, job.ChainConfig, "first")
		want(tx, 1, job.Result, "")
		want(tx, 2, job.ChainConfig, "")
	})
	update(t, s, func(tx *Tx) {
		want(tx, 1, job.ChainConfig, "first")
		j := read(t, tx, 1)
		put(tx, j, "second")
		must(t, tx.PutJob(j))
		want(tx, 1, job.ChainConfig, "second")
		must(t, tx.DeleteBlob(j, job.ChainConfig))
		must(t, tx.PutJob(j))
		want(tx, 1, job.ChainConfig, "")
	})
}

// A missing blob that its job's record lists stops the replica.
func TestBlobThatIsLost(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) { create(t, tx, 1, "q") })
	tx := begin(s)
	j := read(t, tx, 1)
	j.Blobs = 1 << job.ChainConfig
	if b, err := tx.Blob(j, job.ChainConfig); err == nil {
		t.Errorf("it is %v", b)
	}
	if err := tx.Commit(); err == nil {
		t.Error("the entry was committed")
	}
}

// AdmitQueue creates a queue beyond the limit, because its jobs cannot be refused.
func TestAdmitQueue(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	update(t, s, func(tx *Tx) {
		for n := range job.MaxQueues {
			tx.EnsureQueue(fmt.Sprint("q", n))
		}
		if tx.CanAddQueues(1) {
			t.Error("there is room for another queue")
		}
		tx.AdmitQueue("late")
		tx.AdmitQueue("late")
		create(t, tx, 1, "late")
	})
	if got := s.Head().QueueRecords; got != job.MaxQueues+1 {
		t.Errorf("there are %d queues, want %d", got, job.MaxQueues+1)
	}
}
