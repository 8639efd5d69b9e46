package op

import (
	"errors"
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// An iteration may call tools, which are jobs of any queues. The ack creates them. The calling job waits until
// all of them have settled, in any state, and its next iteration receives their outcomes. The job waits for them
// by the steps of dependency.go, on any shards.
//
// The record of the job's last iteration lists the tools that the job waits for. A SettleDependency about a
// job that is not in that list belongs to an earlier wait, which a retry or an approval has ended, and is
// ignored.

// checkTools checks the tool calls of an item.
func (i *AckItem) checkTools(p *problems, at int) {
	calls := i.GetToolCalls()
	if len(calls) == 0 {
		return
	}
	if len(calls) > job.MaxToolCalls {
		p.item("items", at, "tool_calls", fmt.Errorf("has %d elements; at most %d are allowed", len(calls), job.MaxToolCalls))
		return
	}
	if i.GetAgentStatus() != job.Continue {
		p.item("items", at, "tool_calls", errors.New(`go with agent_status "continue"`))
	}
	for k, call := range calls {
		field := fmt.Sprintf("tool_calls[%d]", k)
		if call.GetName() == "" {
			p.item("items", at, field+".name", errors.New("is missing"))
		}
		p.item("items", at, field+".name", job.CheckText(call.GetName(), job.MaxToolName))
		p.item("items", at, field+".shard", checkShard(call.GetShard()))
		p.item("items", at, field+".id", call.checkID(calls[:k]))
		nj := call.GetJob()
		nj.check(p, k)
		nj.checkClients(p, k)
		if string(nj.GetOptions().GetParentId()) != string(i.GetProof().GetId()) {
			p.item("items", at, field+".parent_id", errors.New("is not the job that calls"))
		}
		if nj.GetOptions().GetUniqueKey() != "" || nj.GetOptions().GetDebounceKey() != "" || nj.GetChain() != nil || len(nj.GetDependsOn()) > 0 {
			p.item("items", at, field, errors.New("has a unique or debounce key, a chain or dependencies; a tool's job has none"))
		}
	}
}

// checkID checks that the id of a call's job was made for the job's queue and that no earlier call of the
// item has that id.
func (c *ToolCall) checkID(before []*ToolCall) error {
	id, err := job.IDFromBytes(c.GetId())
	switch {
	case err != nil:
		return err
	case id.Slot() != job.SlotOf(c.GetJob().GetQueue()):
		return fmt.Errorf("%s was not made for queue %q", id, c.GetJob().GetQueue())
	case slices.ContainsFunc(before, func(b *ToolCall) bool { return string(b.GetId()) == string(c.Id) }):
		return fmt.Errorf("%s is there twice", id)
	}
	return nil
}

// calls returns an item's tool calls in the form of the iteration's record. A job that is being cancelled calls
// no tools.
func (i *AckItem) calls(j *job.Job) []*job.ToolCall {
	if j.Cancelling {
		return nil
	}
	var calls []*job.ToolCall
	for _, c := range i.ToolCalls {
		calls = append(calls, &job.ToolCall{JobId: c.Id, Name: c.Name, Queue: c.Job.Queue, Shard: c.Shard})
	}
	return calls
}

// callTools creates the jobs that an iteration calls and makes their caller wait for them. A job that is being
// cancelled calls none. callTools refuses before it writes anything, and runs before the ack writes anything.
func callTools(tx *state.Tx, j *job.Job, i *AckItem) (*Refusal, error) {
	if len(i.ToolCalls) == 0 || j.Cancelling {
		return nil, nil
	}
	if refused := i.roomForTools(tx, j); refused != nil {
		return refused, nil
	}
	for _, c := range i.ToolCalls {
		if err := send(tx, c.Shard, &CreateJobs{Meta: &Meta{Ids: [][]byte{c.Id}}, Jobs: []*NewJob{c.Job}}); err != nil {
			return nil, fmt.Errorf("call tool %q: %w", c.Name, err)
		}
		if err := send(tx, c.Shard, &WatchJob{JobId: c.Id, WaiterId: j.Id, WaiterShard: tx.Shard()}); err != nil {
			return nil, fmt.Errorf("wait for tool %q: %w", c.Name, err)
		}
	}
	j.BlockedBy = uint32(len(i.ToolCalls))
	return nil, nil
}

// roomForTools refuses the calls with OVERLOADED if the outbox to one of their shards has no room for them.
func (i *AckItem) roomForTools(tx *state.Tx, j *job.Job) *Refusal {
	type load struct{ ops, bytes uint64 }
	var away map[uint32]load
	for _, c := range i.ToolCalls {
		if c.Shard == tx.Shard() {
			continue
		}
		if away == nil {
			away = map[uint32]load{}
		}
		l := away[c.Shard]
		l.ops, l.bytes = l.ops+2, l.bytes+uint64(c.Job.SizeVT())+2*watchJobBytes
		away[c.Shard] = l
		if box := tx.Outbox(c.Shard); box.Ops()+l.ops > state.MaxOutboxOps || box.Bytes+l.bytes > state.MaxOutboxBytes {
			return refuse(api.Overloaded, "job %s calls tool %q, and the queue of messages to the shard of queue %s is full: try again later", job.ID(j.Id), c.Name, c.Job.Queue)
		}
	}
	return nil
}

// awaits reports whether the last iteration of j called the job with the id `other`.
func awaits(tx *state.Tx, j *job.Job, other []byte) (bool, error) {
	it, err := tx.Iteration(j, j.Detail.GetIteration())
	return slices.ContainsFunc(it.GetToolCalls(), func(c *job.ToolCall) bool { return string(c.GetJobId()) == string(other) }), err
}
