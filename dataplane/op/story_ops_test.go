package op_test

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// builders make the op of a story's command.
var builders = map[string]func(s *story, items []item) op.Op{
	"enqueue":           (*story).enqueue,
	"fetch":             (*story).fetchOp,
	"ack":               (*story).ackOp,
	"fail":              (*story).failOp,
	"heartbeat":         (*story).heartbeatOp,
	"set-queue":         (*story).setQueue,
	"promote":           func(s *story, items []item) op.Op { return &op.Promote{JobIds: s.jobIDs(items[0])} },
	"reclaim":           func(s *story, items []item) op.Op { return &op.Reclaim{JobIds: s.jobIDs(items[0])} },
	"purge-idempotency": (*story).purgeIdempotency,
	"start-term":        func(s *story, items []item) op.Op { return &op.StartTerm{Meta: s.meta(items[0])} },
	"trim-feed":         (*story).trimFeed,
	"create-key":        (*story).createKey,
	"revoke-key":        (*story).revokeKey,
	"trim-usage":        (*story).trimUsage,
	"raise-level": func(s *story, items []item) op.Op {
		return &op.RaiseLevel{Meta: s.meta(items[0]), Level: uint32(items[0].number(s.t, "level", 0))}
	},
	"again": (*story).again,
	"delete-queue": func(s *story, items []item) op.Op {
		_, ifSettled := items[0].settings["if-settled"]
		return &op.DeleteQueue{Meta: s.meta(items[0]), Queue: repeated(items[0].words[0]), IfSettled: ifSettled}
	},
}

// meta reads key=, request=, by=, id= (of the request) and audit= of a command.
func (s *story) meta(i item) *op.Meta {
	meta := &op.Meta{Principal: repeated(i.text("by", ""))}
	if key, ok := i.settings["key"]; ok {
		meta = idempotent(repeated(i.text("by", "")), repeated(key), i.text("request", "r"))
	}
	if id, ok := i.settings["id"]; ok {
		sum := sha256.Sum256([]byte(id))
		meta.RequestId = sum[:i.number(s.t, "id-bytes", 16)]
	}
	meta.Audit = i.audit(s.t)
	return meta
}

// again returns the op that a command has named by as=, to be applied once more.
func (s *story) again(items []item) op.Op {
	o := s.named[items[0].words[0]]
	if o == nil {
		s.t.Fatalf("no op is named %q", items[0].words[0])
	}
	return o
}

// enqueue names jobs; a name seen before is the same job again.
func (s *story) enqueue(items []item) op.Op {
	o := &op.Enqueue{Meta: s.meta(items[0])}
	for _, i := range items {
		for _, name := range i.words {
			queue := repeated(i.text("queue", "q"))
			id, ok := s.jobs[name]
			if !ok {
				id = s.newID(queue)
				s.jobs[name], s.names[id] = id, name
			}
			o.Meta.Ids = append(o.Meta.Ids, id[:])
			nj := &op.NewJob{
				Queue:    queue,
				Payload:  &job.Blob{Data: []byte(repeated(i.text("payload", "{}")))},
				Priority: uint32(i.number(s.t, "priority", job.Normal)),
				Retry: &job.Retry{
					MaxAttempts: uint32(i.number(s.t, "attempts", job.DefaultMaxAttempts)),
					BaseDelayMs: i.millis(s.t, "base", job.DefaultRetryBaseDelay),
					MaxDelayMs:  i.millis(s.t, "most", job.DefaultRetryMaxDelay),
				},
				Checkpoint: i.blob(s.t, "checkpoint"),
				Tags:       pairs(i.text("tags", "")),
				Headers:    pairs(i.text("headers", "")),
			}
			nj.Retry.Backoff, _ = job.ParseBackoff(i.text("backoff", "exponential"))
			if when, ok := i.settings["at"]; ok {
				nj.ScheduledNs = epochNs + i.duration(s.t, when).Nanoseconds()
			}
			s.enqueueOptions(i, nj)
			o.Jobs = append(o.Jobs, nj)
		}
	}
	return o
}

// pairs reads "name:value,name:value".
func pairs(text string) (out []*job.Pair) {
	for part := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(part, ":"); ok {
			out = append(out, &job.Pair{Name: name, Value: value})
		}
	}
	return out
}

func (s *story) fetchOp(items []item) op.Op {
	i := items[0]
	o := &op.Fetch{
		Meta:     s.meta(i),
		Queues:   i.words,
		Count:    uint32(i.number(s.t, "count", 1)),
		WorkerId: i.text("worker", "w"),
		Hostname: i.text("hostname", ""),
		LeaseMs:  i.millis(s.t, "lease", job.DefaultLease),
	}
	o.Meta.LeaseSeed = s.newSeed()
	return o
}

// proof reads a job's name, token= (a token's name, or anything for a stale one)
// and worker=.
func (s *story) proof(i item) *op.LeaseProof {
	proof := &op.LeaseProof{WorkerId: repeated(i.text("worker", ""))}
	if len(i.words) == 0 {
		return proof
	}
	id, ok := s.jobs[i.words[0]]
	if !ok {
		id = s.newID(i.words[0])
		s.jobs[i.words[0]], s.names[id] = id, i.words[0]
	}
	proof.Id = id[:]
	if name, ok := i.settings["token"]; ok {
		if proof.Token, ok = s.tokens[name]; !ok {
			proof.Token = []byte(name)
		}
	}
	return proof
}

func (s *story) ackOp(items []item) op.Op {
	o := &op.Ack{Meta: s.meta(items[0])}
	for _, i := range items {
		item := &op.AckItem{
			Proof:      s.proof(i),
			Result:     i.blob(s.t, "result"),
			Checkpoint: i.blob(s.t, "checkpoint"),
			Usage:      i.usage(s.t),
		}
		s.agentItem(i, item)
		o.Items = append(o.Items, item)
	}
	return o
}

func (s *story) failOp(items []item) op.Op {
	o := &op.Fail{Meta: s.meta(items[0])}
	for _, i := range items {
		item := &op.FailItem{
			Proof:     s.proof(i),
			Error:     repeated(i.text("error", "")),
			Backtrace: repeated(i.text("backtrace", "")),
			Usage:     i.usage(s.t),
		}
		if i.has("undelivered") {
			item.Reason = op.FailReason_FAIL_REASON_UNDELIVERED
		}
		if i.has("shutdown") {
			item.Reason = op.FailReason_FAIL_REASON_SHUTDOWN
		}
		if i.has("strange") {
			item.Reason = 7
		}
		o.Items = append(o.Items, item)
	}
	return o
}

func (s *story) heartbeatOp(items []item) op.Op {
	o := &op.Heartbeat{Meta: s.meta(items[0])}
	for _, i := range items {
		o.Items = append(o.Items, &op.HeartbeatItem{
			Proof:      s.proof(i),
			Progress:   i.blob(s.t, "progress"),
			Checkpoint: i.blob(s.t, "checkpoint"),
			Usage:      i.usage(s.t),
			LeaseMs:    i.millis(s.t, "lease", 0),
		})
	}
	return o
}

func (s *story) setQueue(items []item) op.Op {
	i := items[0]
	o := &op.SetQueue{Meta: s.meta(i), Queue: i.words[0]}
	if v, ok := i.settings["paused"]; ok {
		paused := v == "true"
		o.Paused = &paused
	}
	if _, ok := i.settings["concurrency"]; ok {
		most := uint32(i.number(s.t, "concurrency", 0))
		o.MaxConcurrency = &most
	}
	return o
}

// jobIDs reads names of jobs, each known or not.
func (s *story) jobIDs(i item) (ids [][]byte) {
	for _, name := range i.words {
		ids = append(ids, s.proof(item{words: []string{name}}).Id)
	}
	return ids
}

// purgeIdempotency reads principal/key of records.
func (s *story) purgeIdempotency(items []item) op.Op {
	o := &op.PurgeIdempotency{}
	for _, word := range items[0].words {
		principal, key, _ := strings.Cut(word, "/")
		id := sha256.Sum256([]byte(principal + "\x00" + key))
		o.RecordIds = append(o.RecordIds, id[:16])
	}
	return o
}

func (s *story) trimFeed(items []item) op.Op {
	first, err := strconv.ParseUint(items[0].words[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return &op.TrimFeed{FirstSeq: first}
}

func (s *story) trimUsage(items []item) op.Op {
	first, err := strconv.ParseUint(items[0].words[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return &op.TrimUsage{Meta: s.meta(items[0]), FirstSeq: first}
}

func (s *story) createKey(items []item) op.Op {
	i := items[0]
	o := &op.CreateKey{Meta: s.meta(i), First: i.has("first"), JudgedVersion: i.number(s.t, "judged", 0)}
	if i.has("none") {
		return o
	}
	hash := sha256.Sum256([]byte(i.text("secret", "s")))
	o.Key = &state.Key{
		Id:         repeated(i.text("id", "")),
		Name:       repeated(i.text("name", "")),
		Roles:      strings.Split(repeated(i.text("roles", "admin")), ","),
		QueueScope: strings.FieldsFunc(repeated(i.text("scope", "")), func(r rune) bool { return r == ',' }),
		Hash:       hash[:i.number(s.t, "hash", sha256.Size)],
		Enabled:    true,
	}
	if i.has("created") {
		o.Key.CreatedNs = s.clockNs
	}
	return o
}

func (s *story) revokeKey(items []item) op.Op {
	i := items[0]
	return &op.RevokeKey{Meta: s.meta(i), Id: repeated(i.words[0]), JudgedVersion: i.number(s.t, "judged", 0), CallerVersion: i.number(s.t, "caller", 0)}
}
