package op_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine/entry"
)

// BenchmarkApply applies single enqueues, fetches and acks, in entries of 1, 32
// and 512 of them, in a shard that meters, as on a host of the cloud. Time and allocations are those of one op, without encoding
// the entry.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 32, 512} {
		for _, name := range []string{"enqueue", "fetch", "ack"} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				w := newWorld(b)
				w.apply(&op.RecordUsage{})
				run := func(make func(i int) op.Op) []any {
					entries := w.entries(b.N, size, make)
					if b.ResetTimer(); len(entries) == 0 {
						b.Fatal("nothing to apply")
					}
					return w.applyAll(entries)
				}
				run(func(int) op.Op { return w.benchJobs("q", 1) })
				if name == "enqueue" {
					return
				}
				fetched := run(func(int) op.Op { return w.fetch("q", 1) })
				if name == "fetch" {
					return
				}
				run(func(i int) op.Op { return ack(fetched[i].(*op.FetchResult).Jobs...) })
			})
		}
	}
}

// TestAllocations checks the allocations of reading and applying one op in an entry of 64, because the
// garbage collector must walk them. A change that needs more raises the limit and gives the reason.
func TestAllocations(t *testing.T) {
	const runs, size = 20, 64
	w := newWorld(t)
	measure := func(name string, budget float64, make func(i int) op.Op) (results []any) {
		entries := w.entries((runs+1)*size, size, make)
		got := testing.AllocsPerRun(runs, func() {
			results = append(results, w.applyAll(entries[:1])...)
			entries = entries[1:]
		}) / size
		if got > budget {
			t.Errorf("%s allocates %.1f times, its budget is %v", name, got, budget)
		}
		return results
	}
	measure("enqueue", 15, func(int) op.Op { return w.benchJobs("q", 1) })
	fetched := measure("fetch", 10, func(int) op.Op { return w.fetch("q", 1) })
	measure("ack", 15, func(i int) op.Op { return ack(fetched[i].(*op.FetchResult).Jobs...) })
}

// benchJobs builds an enqueue of jobs with a payload of 200 bytes.
func (w *world) benchJobs(queue string, n int) *op.Enqueue {
	o := w.newJobs(queue, n)
	for _, nj := range o.Jobs {
		nj.Payload.Data = make([]byte, 200)
	}
	return o
}

// entries returns n ops in decoded entries.
func (w *world) entries(n, size int, make func(i int) op.Op) []entry.Entry {
	var entries []entry.Entry
	for i := 0; i < n; i += size {
		ops := []op.Op{}
		for j := i; j < min(i+size, n); j++ {
			ops = append(ops, make(j))
		}
		e, err := entry.Decode(w.encode(op.FeatureLevel, ops...))
		if err != nil {
			w.t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

func (w *world) applyAll(entries []entry.Entry) (results []any) {
	for _, e := range entries {
		w.index++
		r, err := w.machine.Apply(at(w.index), e)
		if err != nil {
			w.t.Fatal(err)
		}
		results = append(results, r...)
	}
	return results
}

// BenchmarkValidate measures the proposer's cost of each op.
func BenchmarkValidate(b *testing.B) {
	w := &world{t: b, clockNs: epochNs}
	o := w.benchJobs("q", 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := o.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCodec compares the generated codec with the reflecting one on the most frequent messages: an
// enqueue and a job's record.
func BenchmarkCodec(b *testing.B) {
	w := &world{t: b, clockNs: epochNs}
	enqueue := w.benchJobs("mail.outgoing", 1)
	record := &job.Job{
		Id: enqueue.Meta.Ids[0], Number: 123456, Queue: "mail.outgoing", State: job.Active, Priority: job.Normal,
		Attempt: 1, Retry: job.NewRetry(), CreatedNs: epochNs, StartedNs: epochNs,
		Tags:  []*job.Pair{{Name: "customer", Value: "c-1234"}, {Name: "kind", Value: "welcome"}},
		Lease: &job.Lease{Token: make([]byte, 16), WorkerId: "worker-1", Hostname: "host-1", ExpiresNs: epochNs, LengthMs: 60000},
		Blobs: 1,
	}
	for _, m := range []struct {
		message message
		empty   func() message
	}{
		{enqueue, func() message { return &op.Enqueue{} }},
		{record, func() message { return &job.Job{} }},
	} {
		name := strings.TrimPrefix(fmt.Sprintf("%T", m.message), "*")
		data, err := proto.Marshal(m.message)
		if err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, 0, 2*len(data))
		for _, c := range []struct {
			name string
			run  func() error
		}{
			{"marshal/plain", func() error { _, err := proto.MarshalOptions{}.MarshalAppend(buf, m.message); return err }},
			{"marshal/generated", func() error { _, err := m.message.MarshalToSizedBufferVT(buf[:m.message.SizeVT()]); return err }},
			{"unmarshal/plain", func() error { return proto.Unmarshal(data, m.empty()) }},
			{"unmarshal/generated", func() error { return m.empty().UnmarshalVT(data) }},
		} {
			b.Run(name+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := c.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

type message interface {
	proto.Message
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}
