package sim

import (
	"bytes"
	"crypto/sha256"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// model predicts the behaviour of a shard. It is written for clarity alone: plain maps, whole scans, no
// indexes, no store. Apart from the messages and the names of codes and kinds, it shares with the real
// machine only three pure functions that have tests of their own: a schedule's run ids and delays, a jittered
// delay, and the rate window.
type model struct {
	clockNs       int64
	termStartedNs int64
	nextNumber    uint64
	jobs          map[job.ID]*modelJob
	queues        map[string]*modelQueue
	keys          map[string]*state.Key
	secured       bool
	remembered    map[string]remembered // by principal and key
	usage         []modelUsage          // row i has number i+1; includes trimmed rows
	usageFirst    uint64                // the first row kept
	rejections    uint64                // number of rejected usage reports
	meteredNs     int64                 // time up to which usage rows have the open time; 0 = the shard does not meter yet
	happened      modelMeters           // since the shard meters
	recorded      modelMeters           // in usage rows
	droppedNs     int64                 // active time that the deletion of queues has dropped
	level         uint32
	members       *op.SetMembers // the last that was not refused; nil for none
	seed          entry.Seed     // of the running entry
	born          uint64         // number of ids that the running entry has generated
	batches       map[job.ID]*modelBatch
	waiters       map[job.ID]*modelWaiters // by the job that is waited for
	schedules     map[job.ID]*state.Schedule
	settings      *state.Settings
	ledger        *ledger // shared by all shards
	resources     map[modelName]*state.Resource
	traffic       map[job.ID]*modelTraffic    // by the provider's id
	relimited     map[job.ID]int64            // time of the last change of a provider's limits
	alerts        map[string]*state.Alert     // by the rule's id
	deliveries    map[string]*state.Delivery  // by id
	nameless      map[uint64]*state.Delivery  // by number: deliveries whose ids the model has not learned yet
	queued        uint64                      // deliveries
	attempted     map[string]*state.Attempted // by the webhook's id
	told          toldOf
	audit         modelAudit
	bulks         modelBulks
	modelMoney

	// Records by which the model recognises repeats.
	fetches map[string][]grant // by lease seed: the leases of the last fetch with that seed
	leases  uint64             // number of grants so far

	// The exchange with other shards.
	number   uint32
	shards   []*model
	sent     map[uint32][]traveller // everything ever sent to a shard
	trimmed  map[uint32]uint64      // the last forgotten op to a shard
	inbox    map[uint32]uint64      // the last applied op of a shard
	forwards map[job.ID]forward
}

// grant is one lease of a job.
type grant struct {
	job   job.ID
	lease uint64
}

// modelUsage is one usage report.
type modelUsage struct {
	job             job.ID
	attempt         uint32
	queue           string
	model, provider string
	atNs            int64
	tokens          [4]int64 // input, output, cache creation, cache read
	costNano        int64    // the cost that counts
	said            bool     // the worker reported the cost
	computed        int64
	isComputed      bool
	unpriced        bool
	phase           state.UsagePhase
	first           bool   // the job's first report
	rejected        string // why the report was rejected; no sum contains its amounts then
	key, tags       string
	meters          string // the quantities of a row that RecordUsage or the deletion of a queue has written
}

// modelJob is the expected state of a job.
type modelJob struct {
	id           job.ID
	number       uint64
	queue        string
	priority     uint32
	state        job.State
	attempt      uint32
	base         uint32 // attempts before the last requeue
	moves        uint32
	retry        *job.Retry
	createdNs    int64
	dueNs        int64  // if it waits for a time, that time; else the time at which it was last due
	lease        uint64 // number of its last grant; 0 if it was never leased
	token        []byte
	reported     string // the newest heartbeat request that reported usage in this lease
	endedBy      string // the request that ended the last attempt; empty if no request did
	worker       string
	leaseEndNs   int64
	leaseMs      int64
	leaseExpired bool
	running      bool  // an attempt has begun and its end is not known
	attemptCost  int64 // of that attempt, as reported
	costNano     int64
	tokens       [4]int64
	model        string // named by the last report
	provider     string
	errors       map[uint32]bool // the attempts whose errors are kept
	cancelling   bool
	doomed       bool
	payload      *job.Blob
	previous     *job.Blob
	tags         []*job.Pair
	headers      []*job.Pair
	parent       []byte
	origin       *job.Origin
	schedule     []byte

	unique       string
	uniqueEndNs  int64 // 0: it has no unique key, or has it no longer
	uniqueWhole  bool  // it keeps the key after it has settled
	debounce     string
	lifeMs       int64
	endNs        int64 // of its lifetime; 0: never
	settledNs    int64
	batch        *modelMember
	chain        *modelLink
	blocked      int
	policy       job.DependencyPolicy
	awaited      bool         // other jobs wait for it
	options      *job.Options // requested by its client
	fairnessKey  string       // the fairness key for which it counts
	weight       uint32
	queued       modelQueued
	meteredLease uint64 // number of the last grant whose active time was counted
	gate         modelGate
	keyed        bool  // its fairness key was charged for its attempt
	chargedNs    int64 // the amount of that charge
	claim        modelClaim
	agent        modelAgent
	reportedEver bool
}

// remembered is an idempotency record: the op of a key and its outcome.
type remembered struct {
	hash     []byte
	op       op.Op
	outcome  outcome
	expireNs int64
}

// outcome is the result or the refusal that the model expects of one op.
type outcome struct {
	refused api.Code
	result  any
	old     bool // the remembered result of an idempotency key, even if the job has changed since
}

func newModel(clockNs int64, number uint32, shards []*model, l *ledger) *model {
	return &model{
		number:     number,
		shards:     shards,
		resources:  map[modelName]*state.Resource{},
		traffic:    map[job.ID]*modelTraffic{},
		relimited:  map[job.ID]int64{},
		ledger:     l,
		modelMoney: newMoney(),
		level:      1,
		fetches:    map[string][]grant{},
		sent:       map[uint32][]traveller{},
		trimmed:    map[uint32]uint64{},
		inbox:      map[uint32]uint64{},
		forwards:   map[job.ID]forward{},
		batches:    map[job.ID]*modelBatch{},
		waiters:    map[job.ID]*modelWaiters{},
		schedules:  map[job.ID]*state.Schedule{},
		clockNs:    clockNs,
		nextNumber: 1, // 0 is no job
		jobs:       map[job.ID]*modelJob{},
		queues:     map[string]*modelQueue{},
		keys:       map[string]*state.Key{},
		remembered: map[string]remembered{},
		usageFirst: 1,
		audit:      modelAudit{first: 1},
		bulks:      modelBulks{homes: map[string]*state.Bulk{}, parts: map[string]*modelPart{}},
		alerts:     map[string]*state.Alert{},
		deliveries: map[string]*state.Delivery{},
		nameless:   map[uint64]*state.Delivery{},
		attempted:  map[string]*state.Attempted{},
		told:       toldOf{asked: map[string]bool{}},
	}
}

// begin starts an entry.
func (m *model) begin(clockNs int64, seed entry.Seed) {
	m.clockNs = max(m.clockNs, clockNs)
	m.seed, m.born = seed, 0
	m.audit.begun = uint64(len(m.audit.records)) + 1
}

// applyOnce applies an op. The model cannot predict lease tokens; agree copies them from the real result.
func (m *model) applyOnce(o op.Op) outcome {
	meta := o.GetMeta()
	idem := meta.GetIdempotency()
	if idem == nil {
		return m.dispatch(o)
	}
	key := meta.GetPrincipal() + "\x00" + idem.GetKey()
	if old, ok := m.remembered[key]; ok && old.expireNs > m.clockNs {
		if !bytes.Equal(old.hash, idem.GetRequestHash()) || op.KindFor(old.op) != op.KindFor(o) {
			return outcome{refused: api.IdempotencyMismatch}
		}
		out := old.outcome
		out.old = true
		return out
	}
	out := m.dispatch(o)
	if out.refused == "" && !didNothing(out.result) {
		m.remembered[key] = remembered{idem.GetRequestHash(), o, out, m.clockNs + int64(job.IdempotencyPeriod)}
	}
	return out
}

func (m *model) count(queue string, s job.State) int {
	n := 0
	for _, j := range m.jobs {
		if j.queue == queue && j.state == s {
			n++
		}
	}
	return n
}

func (m *model) fetch(o *op.Fetch) outcome {
	seed := string(o.GetMeta().GetLeaseSeed())
	if result := m.granted(seed); len(result.Jobs) > 0 {
		return outcome{result: result}
	}
	result := &op.FetchResult{}
	m.fetches[seed] = nil
	for _, name := range o.GetQueues() {
		for len(result.Jobs) < int(o.GetCount()) && m.mayFetch(name) {
			j := m.nextReady(name)
			if j == nil {
				break
			}
			if j.over(m.clockNs) {
				m.expireJob(j)
				continue
			}
			if v := m.decide(j); v != (verdict{}) {
				m.putAside(j, v)
				continue
			}
			m.queues[name].take(m.clockNs)
			m.beginService(j)
			m.claim(j)
			m.reserve(j)
			j.state = job.Active
			m.put(j)
			j.attempt++
			j.worker = o.GetWorkerId()
			j.leaseMs = o.GetLeaseMs()
			j.agent.leased(m.clockNs)
			j.leaseEndNs = j.agent.untilNs(m.clockNs + j.leaseMs*1e6)
			j.token = nil // agree learns it from the real result
			m.leases++
			j.lease, j.reported, j.endedBy = m.leases, "", ""
			m.fetches[seed] = append(m.fetches[seed], grant{j.id, j.lease})
			result.Jobs = append(result.Jobs, &op.Leased{Id: j.id[:], Attempt: j.attempt, ExpiresNs: j.leaseEndNs})
		}
	}
	return outcome{result: result}
}

// granted returns the leases of the last fetch of a seed that still exist.
func (m *model) granted(seed string) *op.FetchResult {
	result := &op.FetchResult{}
	for _, g := range m.fetches[seed] {
		if j := m.jobs[g.job]; j != nil && j.state == job.Active && j.lease == g.lease {
			result.Jobs = append(result.Jobs, &op.Leased{Id: j.id[:], Attempt: j.attempt, ExpiresNs: j.leaseEndNs})
		}
	}
	return result
}

// holds returns the job of a proof, and the code of the refusal if the proof does not entitle its worker to
// settle the job.
func (m *model) holds(proof *op.LeaseProof) (*modelJob, api.Code) {
	j := m.jobs[job.ID(proof.GetId())]
	switch {
	case j == nil:
		return nil, api.NotFound
	case j.state != job.Active:
		if len(proof.GetToken()) == 0 && proof.GetWorkerId() == "" && !j.leaseExpired {
			return j, api.StateConflict
		}
		return j, api.LeaseLost
	case len(proof.GetToken()) > 0:
		if !bytes.Equal(proof.GetToken(), j.token) {
			return j, api.LeaseLost
		}
	case proof.GetWorkerId() != "":
		if proof.GetWorkerId() != j.worker {
			return j, api.LeaseLost
		}
	case j.leaseExpired:
		return j, api.LeaseLost
	}
	return j, ""
}

func refusal(code api.Code) *op.Refusal { return &op.Refusal{Code: string(code)} }

func (m *model) promote(o *op.Promote) outcome {
	result := &op.PromoteResult{}
	for _, id := range o.GetJobIds() {
		j := m.jobs[job.ID(id)]
		if j != nil && (j.state == job.Scheduled || j.state == job.Retrying) && j.dueNs <= m.clockNs && j.blocked == 0 {
			j.state = job.Pending
			m.put(j)
			result.Promoted++
		}
	}
	return outcome{result: result}
}

func (m *model) reclaim(o *op.Reclaim) outcome {
	result := &op.ReclaimResult{}
	for _, id := range o.GetJobIds() {
		j := m.jobs[job.ID(id)]
		if j == nil || j.state != job.Active {
			continue
		}
		grace := min(j.leaseMs*1e6, int64(job.ReclaimGrace))
		if max(j.leaseEndNs, m.termStartedNs+grace) > m.clockNs {
			continue
		}
		j.leaseExpired, j.endedBy = true, ""
		m.lose(j, j.loseLease(), 0)
		result.Reclaimed++
	}
	return outcome{result: result}
}

// recordID returns the id of an idempotency record.
func recordID(principal, key string) []byte {
	sum := sha256.Sum256([]byte(principal + "\x00" + key))
	return sum[:16]
}

func (m *model) purgeIdempotency(o *op.PurgeIdempotency) outcome {
	result := &op.PurgeIdempotencyResult{}
	for _, id := range o.GetRecordIds() {
		for key, r := range m.remembered {
			meta := r.op.GetMeta()
			if bytes.Equal(recordID(meta.GetPrincipal(), meta.GetIdempotency().GetKey()), id) && r.expireNs <= m.clockNs {
				delete(m.remembered, key)
				result.Purged++
			}
		}
	}
	return outcome{result: result}
}
