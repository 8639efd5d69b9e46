package op

import (
	"errors"
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// An iteration may call for jobs of other queues, its tools: they are made with the
// ack, its job waits until all of them have settled, however, and the next iteration
// gets what came of them. They wait for each other by the steps of dependency.go, on
// whatever shards they lie.
//
// What the job waits for is in the record of its last iteration: a Met of another job
// than those is of a life that is over, and counts for nothing.

// checkTools looks at the jobs that an item calls for.
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

// checkID checks that a call's job has an id of its own, born in its queue.
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

// calls are an item's calls as its iteration's record has them. A job that is to be
// cancelled calls for nothing any more.
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

// callTools makes the jobs that an iteration calls for, and has the next one wait for
// them. It refuses before it writes anything, and nothing of the ack has been written
// when it is called.
func callTools(tx *state.Tx, j *job.Job, i *AckItem) (*Refusal, error) {
	if len(i.ToolCalls) == 0 || j.Cancelling {
		return nil, nil
	}
	if refused := i.roomForTools(tx, j); refused != nil {
		return refused, nil
	}
	for _, c := range i.ToolCalls {
		if err := send(tx, c.Shard, &Place{Meta: &Meta{Ids: [][]byte{c.Id}}, Jobs: []*NewJob{c.Job}}); err != nil {
			return nil, fmt.Errorf("call tool %q: %w", c.Name, err)
		}
		if err := send(tx, c.Shard, &Watch{JobId: c.Id, WaiterId: j.Id, WaiterShard: tx.Shard()}); err != nil {
			return nil, fmt.Errorf("wait for tool %q: %w", c.Name, err)
		}
	}
	j.BlockedBy = uint32(len(i.ToolCalls))
	return nil, nil
}

// roomForTools refuses calls for which there is no room on the way to their shards.
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
		l.ops, l.bytes = l.ops+2, l.bytes+uint64(c.Job.SizeVT())+2*watchBytes
		away[c.Shard] = l
		if box := tx.Outbox(c.Shard); box.Ops()+l.ops > state.MaxOutboxOps || box.Bytes+l.bytes > state.MaxOutboxBytes {
			return refuse(api.Overloaded, "job %s calls for tool %q, and as much is on its way to the shard of queue %s as may be: try again later", job.ID(j.Id), c.Name, c.Job.Queue)
		}
	}
	return nil
}

// awaits says whether a job that has iterations waits for another: for those that its
// last iteration called for.
func awaits(tx *state.Tx, j *job.Job, other []byte) (bool, error) {
	it, err := tx.Iteration(j, j.Detail.GetIteration())
	return slices.ContainsFunc(it.GetToolCalls(), func(c *job.ToolCall) bool { return string(c.GetJobId()) == string(other) }), err
}
