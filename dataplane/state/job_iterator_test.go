package state

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// A JobIterator answers like its Snapshot: in the order of ids and in any other, from files and from memory,
// for jobs that exist and jobs that do not. It sees nothing that was committed after it.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	const jobs = 60
	for n := range jobs {
		tx := begin(s)
		tx.EnsureQueue("q")
		if n%3 > 0 {
			j := newJob(n, "q")
			if n%2 == 0 {
				must(t, tx.PutBlob(j, job.Payload, &job.Blob{Data: []byte{byte(n)}}))
			}
			must(t, tx.CreateJob(j, enqueued))
		}
		must(t, tx.Commit())
		if n == jobs/2 {
			must(t, s.Flush())
		}
	}
	snap := s.Snapshot()
	defer snap.Close()
	sweep, err := snap.JobIterator()
	must(t, err)
	defer sweep.Close()

	tx := begin(s)
	must(t, tx.CreateJob(newJob(jobs, "q"), enqueued))
	must(t, tx.Commit())

	inOrder := make([]int, jobs+2)
	for i := range inOrder {
		inOrder[i] = i
	}
	random := rand.New(rand.NewPCG(1, 2)).Perm(len(inOrder))
	found := 0
	for _, order := range [][]int{inOrder, random} {
		for _, n := range order {
			got, err := sweep.Job(idOf(n))
			must(t, err)
			want, err := snap.Job(idOf(n))
			must(t, err)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("job %d is %v, want %v", n, got, want)
			}
			for kind := range job.BlobKinds {
				got, err := sweep.Blob(idOf(n), kind)
				must(t, err)
				want, err := snap.Blob(idOf(n), kind)
				must(t, err)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("blob %d of job %d is %v, want %v", kind, n, got, want)
				}
				if got != nil {
					found++
				}
			}
		}
	}
	if found != 2*jobs/3 {
		t.Errorf("found %d blobs, want %d", found, 2*jobs/3)
	}
}

func TestSweepOfClosedStore(t *testing.T) {
	t.Parallel()
	s := openClosing(t)
	snap := s.Snapshot()
	must(t, snap.Close())
	if _, err := snap.JobIterator(); err == nil {
		t.Error("a closed snapshot was swept")
	}
}
