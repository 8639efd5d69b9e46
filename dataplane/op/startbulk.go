package op

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// StartBulk begins a bulk operation: one action on many jobs, which are named by ids or found by a filter, on
// all their shards. Its record is on the home shard. Each shard that may have such jobs receives a part. The
// shard's leader runs the part in chunks (RunBulk), which report to the home shard (CountBulk).
//
// The op is refused with OVERLOADED if the number of stored operations is at its limit, or if too much is on
// its way to one of the other shards. A repeat changes nothing and returns the id of the operation.

// homeShard is the shard of records that belong to the whole namespace.
const homeShard = 0

// Validate refuses an op that no state could accept.
func (o *StartBulk) Validate() error {
	var p problems
	o.Meta.check(&p)
	if n := len(o.Meta.GetIds()); n != 1 {
		p.add("meta.ids", fmt.Errorf("has %d ids for one bulk operation", n))
	}
	for _, id := range o.Meta.GetIds() {
		p.bulkID("meta.ids", id)
	}
	p.bulkAction(o.Action, o.Queue, o.Shard, o.Priority)
	p.scope(o.Scope)
	p.bulkFilter(o.Filter, o.InQueue, o.InStates)
	p.length("shares", len(o.Shares), job.Slots)
	seen, ids := map[uint32]bool{}, 0
	for i, s := range o.Shares {
		p.item("shares", i, "shard", checkShard(s.GetShard()))
		if seen[s.GetShard()] {
			p.item("shares", i, "shard", errors.New("is there twice"))
		}
		seen[s.GetShard()] = true
		if named := len(s.GetJobIds()) > 0; named == (len(o.Filter) > 0) {
			p.item("shares", i, "job_ids", errors.New("and a filter are both given: give one of them"))
		}
		ids += len(s.GetJobIds())
		p.jobIDs(s.GetJobIds())
	}
	if ids > job.MaxBulkIDs {
		p.add("job_ids", fmt.Errorf("has %d elements; at most %d are allowed: use a filter, or send several requests", ids, job.MaxBulkIDs))
	}
	p.whole(o)
	return p.err()
}

// Apply begins the operation.
func (o *StartBulk) Apply(tx *state.Tx) (*StartBulkResult, error) {
	id := [16]byte(o.Meta.Ids[0])
	known, err := tx.Bulk(id)
	if err != nil || known != nil {
		return &StartBulkResult{BulkId: id[:]}, err
	}
	if err := o.admit(tx); err != nil {
		return nil, err
	}
	b := &state.Bulk{
		Id: id[:], Action: o.Action, Principal: o.Meta.GetPrincipal(), Scope: o.Scope,
		EstimatedTotal: o.EstimatedTotal, CreatedNs: tx.ClockNs(), UpdatedNs: tx.ClockNs(),
	}
	for _, s := range o.Shares {
		b.Shares = append(b.Shares, &state.BulkShare{Shard: s.Shard})
	}
	if err := tx.PutBulk(id, b); err != nil {
		return nil, err
	}
	for _, s := range o.Shares {
		if err := send(tx, s.Shard, o.part(id, s)); err != nil {
			return nil, fmt.Errorf("bulk %x: %w", id, err)
		}
	}
	return &StartBulkResult{BulkId: id[:]}, nil
}

// admit refuses the operation with OVERLOADED if the limit of operations or an outbox leaves no room.
func (o *StartBulk) admit(tx *state.Tx) error {
	var refusal *api.Error
	if n := tx.Bulks(); n >= job.MaxBulks {
		refusal = api.Errorf(api.Overloaded, "%d bulk operations are stored, the maximum: try again after some of them have ended", n)
	}
	for _, s := range o.Shares {
		if refusal == nil && s.Shard != tx.Shard() && !tx.CanSend(s.Shard) {
			refusal = api.Errorf(api.Overloaded, "the queue of messages to shard %d is full: try again later", s.Shard)
		}
	}
	if refusal == nil {
		return nil
	}
	refusal.RetryAfter = time.Second
	return refusal
}

// part returns the op that begins a shard's part.
func (o *StartBulk) part(id [16]byte, s *BulkStart) *OpenBulk {
	return &OpenBulk{
		Meta: &Meta{Principal: o.Meta.GetPrincipal()},
		Part: &state.BulkPart{
			Id: id[:], Action: o.Action, Queue: o.Queue, Shard: o.Shard, Priority: o.Priority, Scope: o.Scope,
			Named: len(s.JobIds) > 0, InQueue: o.InQueue, InStates: o.InStates,
		},
		Work: &state.BulkWork{Filter: o.Filter, JobIds: s.JobIds},
	}
}

// bulkID records an id of a bulk operation with the wrong length.
func (p *problems) bulkID(field string, id []byte) {
	if len(id) != len(job.ID{}) {
		p.add(field, fmt.Errorf("has %d bytes; the id of a bulk operation has %d", len(id), len(job.ID{})))
	}
}

// jobIDs records ids of the wrong length; the list may have any length.
func (p *problems) jobIDs(ids [][]byte) {
	for i, id := range ids {
		if len(id) != len(job.ID{}) {
			p.item("job_ids", i, "", fmt.Errorf("has %d bytes; an id has %d", len(id), len(job.ID{})))
		}
	}
}

// bulkAction records an unknown action and parameters that are missing or do not belong to the action.
func (p *problems) bulkAction(a state.BulkAction, queue string, shard, priority uint32) {
	if a.Word() == "" {
		p.add("action", errors.New("is missing, or none there is"))
	}
	if a == state.BulkAction_BULK_ACTION_MOVE {
		p.add("move_to_queue", job.CheckStoredQueueName(queue))
		p.add("shard", checkShard(shard))
	} else if queue != "" || shard != 0 {
		p.add("move_to_queue", errors.New("is only for move"))
	}
	switch {
	case priority >= job.Priorities:
		p.add("priority", fmt.Errorf("is %d; priorities are below %d", priority, job.Priorities))
	case priority != 0 && a != state.BulkAction_BULK_ACTION_CHANGE_PRIORITY:
		p.add("priority", errors.New("is only for change_priority"))
	}
}

// scope records queue globs that no key can have.
func (p *problems) scope(globs []string) {
	if n := len(globs); n > job.MaxKeyScope {
		p.add("scope", fmt.Errorf("has %d elements; at most %d are allowed", n, job.MaxKeyScope))
		return
	}
	for i, g := range globs {
		p.size("scope", i, "", len(g), job.MaxKeyGlob)
		if g == "" {
			p.item("scope", i, "", errors.New("is empty"))
		}
	}
}

// bulkFilter records a filter or a list of states that is too long, and an invalid queue or state of the
// filter.
func (p *problems) bulkFilter(filter []byte, queue string, states []job.State) {
	if n := len(filter); n > job.MaxBulkFilter {
		p.Add(api.PayloadTooLarge, "filter", "has %d bytes; at most %d are allowed", n, job.MaxBulkFilter)
	}
	if queue != "" {
		p.add("filter.queue", job.CheckStoredQueueName(queue))
	}
	if n := len(states); n >= int(job.States) {
		p.add("filter.state", fmt.Errorf("has %d elements; there are %d states", n, job.States-1))
	}
	for _, s := range states {
		if s <= job.State_STATE_UNSPECIFIED || s >= job.States {
			p.add("filter.state", fmt.Errorf("has %d, which is not a state", s))
		}
	}
}
