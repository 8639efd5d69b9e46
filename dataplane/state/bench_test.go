package state

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// benchJob returns a job as an ordinary enqueue creates it.
func benchJob(n uint64) *job.Job {
	id := make([]byte, 16)
	binary.BigEndian.PutUint64(id, n)
	binary.BigEndian.PutUint64(id[8:], n*0x9e3779b97f4a7c15)
	return &job.Job{Id: id, Queue: "emails.send", State: job.Pending, Priority: job.Normal, Retry: job.NewRetry(), CreatedNs: 1}
}

// benchLifecycle takes b.N jobs through enqueue, fetch and ack, batch jobs in an
// entry, three entries for each batch, and leaves `backlog` jobs pending.
func benchLifecycle(b *testing.B, o Options, batch, backlog int) {
	s, err := Open(b.TempDir(), o)
	must(b, err)
	defer s.Close()
	payload := &job.Blob{Data: make([]byte, 200)}
	n, entries, committing := uint64(0), 0, time.Duration(0)
	commit := func(tx *Tx) {
		start := time.Now()
		err := tx.Commit()
		committing += time.Since(start)
		entries++
		if err != nil {
			b.Fatal(err)
		}
	}
	enqueue := func(count int) {
		tx := begin(s)
		for range count {
			n++
			j := benchJob(n)
			must(b, tx.PutBlob(j, job.Payload, payload))
			must(b, tx.CreateJob(j, enqueued))
		}
		commit(tx)
	}
	for left := backlog; left > 0; left -= 1000 {
		enqueue(min(left, 1000))
	}
	ids := make([]job.ID, 0, batch)
	entries, committing = 0, 0
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += batch {
		enqueue(batch)
		ids = ids[:0]
		tx := begin(s)
		for range batch {
			id, ok, err := tx.NextReady("emails.send")
			if err != nil || !ok {
				b.Fatal("nothing is ready", err)
			}
			j, err := tx.Job(id)
			must(b, err)
			j.State, j.Attempt, j.Lease = job.Active, 1, lease(tx.ClockNs()+60e9)
			must(b, tx.PutJob(j, started))
			ids = append(ids, id)
		}
		commit(tx)
		tx = begin(s)
		for _, id := range ids {
			j, err := tx.Job(id)
			must(b, err)
			j.State, j.CompletedNs = job.Completed, tx.ClockNs()
			must(b, tx.PutJob(j, completed))
		}
		if s.Head().Index%100 == 0 {
			must(b, tx.TrimFeed(tx.Head().FeedNextSeq-10000))
		}
		commit(tx)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/job")
	b.ReportMetric(float64(committing.Nanoseconds())/float64(entries), "ns/commit")
	m := s.gen.db.Metrics()
	written := m.WAL.BytesWritten
	for _, l := range m.Levels {
		written += l.TableBytesFlushed + l.TableBytesCompacted
	}
	b.ReportMetric(float64(written)/float64(n), "disk-B/job")
}

func BenchmarkLifecycle(b *testing.B) {
	for _, wal := range []bool{false, true} {
		for _, batch := range []int{1, 32, 512} {
			b.Run(fmt.Sprintf("wal=%t/batch=%d", wal, batch), func(b *testing.B) {
				benchLifecycle(b, Options{wal: wal}, batch, 0)
			})
		}
	}
}

func BenchmarkBacklog(b *testing.B) {
	for _, backlog := range []int{0, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(backlog), func(b *testing.B) { benchLifecycle(b, Options{}, 64, backlog) })
	}
}
