package op_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// These are the story commands for messages between shards; a story's world is shard 0.
func init() {
	builders["move-jobs"] = (*story).moveJobs
	builders["arrive"] = func(s *story, items []item) op.Op { return s.arrival(items[0]) }
	builders["deliver"] = (*story).deliver
	builders["trim-outbox"] = (*story).trimOutbox
}

// moveJobs reads names of jobs, to= and shard=.
func (s *story) moveJobs(items []item) op.Op {
	i := items[0]
	return &op.MoveJobs{
		Meta: s.meta(i), JobIds: s.jobIDs(i),
		Queue: repeated(i.text("to", "")), Shard: uint32(i.number(s.t, "shard", 0)),
	}
}

// arrival reads a job's name and the fields with which it arrives.
func (s *story) arrival(i item) *op.Arrive {
	id := s.proof(item{words: i.words[:1]}).Id
	st, _ := job.ParseState(i.text("state", "pending"))
	o := &op.Arrive{Job: &job.Job{
		Id: id, Queue: repeated(i.text("queue", "q")), State: st, Retry: job.NewRetry(), CreatedNs: s.clockNs,
		Number:   i.number(s.t, "number", 0),
		Priority: uint32(i.number(s.t, "priority", job.Normal)),
		Attempt:  uint32(i.number(s.t, "attempt", 0)),
		Moves:    uint32(i.number(s.t, "moves", 1)),
	}}
	if when, ok := i.settings["at"]; ok {
		o.Job.ScheduledNs = epochNs + i.duration(s.t, when).Nanoseconds()
	}
	for kind, word := range [...]string{"payload", "result", "checkpoint", "progress"} {
		if b := i.blob(s.t, word); b != nil {
			o.Blobs = append(o.Blobs, &op.KindBlob{Kind: uint32(kind), Blob: b})
		}
	}
	if text, ok := i.settings["error"]; ok {
		o.Errors = append(o.Errors, &job.AttemptError{Attempt: o.Job.Attempt, Error: text, CreatedNs: s.clockNs})
	}
	return o
}

// deliver reads from=, first= and incarnation=, and an arrival for each further
// part.
func (s *story) deliver(items []item) op.Op {
	i := items[0]
	o := &op.Deliver{
		From:        uint32(i.number(s.t, "from", 1)),
		Incarnation: make([]byte, i.number(s.t, "length", uint64(len(entry.Incarnation{})))),
		FirstSeq:    i.number(s.t, "first", 1),
	}
	copy(o.Incarnation, i.text("incarnation", "a"))
	for _, part := range items[1:] {
		arrive := s.arrival(part)
		data := make([]byte, arrive.SizeVT())
		if _, err := arrive.MarshalToSizedBufferVT(data); err != nil {
			s.t.Fatal(err)
		}
		o.Items = append(o.Items, &op.Sent{Number: uint32(part.number(s.t, "op", uint64(op.KindFor(arrive).Number))), Op: data})
	}
	return o
}

// trimOutbox reads a number and shard=.
func (s *story) trimOutbox(items []item) op.Op {
	upTo, err := strconv.ParseUint(items[0].words[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return &op.TrimOutbox{Meta: s.meta(items[0]), Shard: uint32(items[0].number(s.t, "shard", 1)), UpTo: upTo}
}

// printOutbox prints the ops that wait for other shards.
func (s *story) printOutbox() {
	for _, box := range s.store.Outboxes() {
		fmt.Fprintf(&s.out, "outbox to %d [%d,%d)\n", box.Shard, box.First, box.Next)
		rows, err := s.store.Outgoing(box.Shard, 1, 100, 1<<30)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, row := range rows {
			o, err := op.Decode(entry.Op{Number: entry.Number(row.Op.Number), Bytes: row.Op.Op})
			if err != nil {
				s.t.Fatal(err)
			}
			arrive, ok := o.(*op.Arrive)
			if !ok {
				s.printSent(row.Seq, o)
				continue
			}
			var blobs []string
			for _, b := range arrive.Blobs {
				blobs = append(blobs, fmt.Sprintf("%d %s", b.Kind, b.Blob.Data))
			}
			for _, e := range arrive.Errors {
				blobs = append(blobs, fmt.Sprintf("error %d %q", e.Attempt, e.Error))
			}
			fmt.Fprintf(&s.out, "  %d %s: %s for %s, attempt %d, move %d: %s\n", row.Seq, s.name(arrive.Job.Id),
				arrive.Job.State.Word(), arrive.Job.Queue, arrive.Job.Attempt, arrive.Job.Moves, strings.Join(blobs, ", "))
		}
	}
}

// printForwards prints where jobs have gone.
func (s *story) printForwards(names []string) {
	s.snapshot(func(v *state.Snapshot) {
		fmt.Fprintf(&s.out, "forwards: %d\n", v.Head().ForwardRecords)
		for _, name := range names {
			f, err := v.Forwarded(s.jobs[name])
			if err != nil {
				s.t.Fatal(err)
			}
			if f == nil {
				fmt.Fprintf(&s.out, "  %s: none\n", name)
				continue
			}
			fmt.Fprintf(&s.out, "  %s: to shard %d, queue %s, in its move %d, at %s, created %s\n", name, f.Shard, f.Queue, f.Move, s.moment(f.ClockNs), s.moment(f.CreatedNs))
		}
	})
}
