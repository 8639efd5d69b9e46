package convert

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// emptyObject is the payload of a job that is enqueued without one.
var emptyObject = json.RawMessage("{}")

// Absent reports whether an optional document was left out. null counts as left out.
func Absent(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// blob converts an optional document to the client's exact bytes, which it does not copy. It returns nil if
// the document is absent. most is the largest allowed size in bytes: blob refuses a longer document and
// returns nil.
func blob(f *Faults, field string, raw json.RawMessage, most int) *job.Blob {
	if Absent(raw) {
		return nil
	}
	return blobIn(new(job.Blob), f, field, raw, most)
}

// blobIn does the same as blob, but fills in out instead of allocating a Blob.
func blobIn(out *job.Blob, f *Faults, field string, raw json.RawMessage, most int) *job.Blob {
	if Absent(raw) {
		return nil
	}
	if len(raw) > most {
		f.TooLong(field, len(raw), most)
		return nil
	}
	out.Data = raw
	return out
}

// pairs converts an object of strings to a list sorted by name, and reports the faults that check finds. It
// returns nil for an empty object.
func pairs(f *Faults, field string, object api.Strings, check func([]*job.Pair) []error) []*job.Pair {
	if len(object) == 0 {
		return nil
	}
	list := make([]*job.Pair, 0, len(object))
	for name, value := range object {
		list = append(list, &job.Pair{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b *job.Pair) int { return strings.Compare(a.Name, b.Name) })
	f.all(field, check(list))
	return list
}

// stringsOf converts a list of pairs to its API form; it returns nil for an empty list.
func stringsOf(list []*job.Pair) api.Strings {
	if len(list) == 0 {
		return nil
	}
	object := make(api.Strings, len(list))
	for _, p := range list {
		object[p.Name] = p.Value
	}
	return object
}

// usage converts a worker's usage report; it returns nil if there is none. No fault of a report refuses the
// request, because the work is done. If the name of the model or the provider is invalid, usage leaves it out
// and marks the report as rejected, so that the op counts nothing of it.
func usage(u *api.ReportedUsage) *job.Usage {
	if u == nil {
		return nil
	}
	out := &job.Usage{
		InputTokens:         int64(u.InputTokens),
		OutputTokens:        int64(u.OutputTokens),
		CacheCreationTokens: int64(u.CacheCreationTokens),
		CacheReadTokens:     int64(u.CacheReadTokens),
		Model:               u.Model,
		Provider:            u.Provider,
	}
	for _, name := range [...]*string{&out.Model, &out.Provider} {
		if job.CheckText(*name, job.MaxUsageWord) != nil {
			*name, out.Rejected = "", job.RejectedName
		}
	}
	if u.CostUSD != nil {
		out.CostNanoUsd, out.CostReported = int64(*u.CostUSD), true
	}
	return out
}

// leaseProof converts the proof that a worker holds a job: a lease token, a worker id, both or neither. The
// op decides whether the proof is enough (job.ProvesLease).
func leaseProof(f *Faults, id job.ID, token, workerID string) *op.LeaseProof {
	return new(proof).read(f, id, token, workerID)
}

// proof is a lease proof and the values it points to, in one allocation.
type proof struct {
	op.LeaseProof
	id    job.ID
	token [job.TokenSize]byte
}

func (p *proof) read(f *Faults, id job.ID, token, workerID string) *op.LeaseProof {
	p.id = id
	p.LeaseProof = op.LeaseProof{Id: p.id[:], WorkerId: workerID}
	if token != "" {
		if err := parseLeaseToken(&p.token, token); err != nil {
			f.Invalid("lease_token", "%v", err)
		} else {
			p.Token = p.token[:]
		}
	}
	if err := job.CheckText(workerID, job.MaxWorkerID); err != nil {
		f.Invalid("worker_id", "%v", err)
	}
	return &p.LeaseProof
}

// parseLeaseToken decodes a lease token, which the API shows in hexadecimal.
func parseLeaseToken(into *[job.TokenSize]byte, given string) error {
	if len(given) == hex.EncodedLen(len(into)) {
		if _, err := hex.Decode(into[:], []byte(given)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s is not a lease token: send the lease_token of the fetch", text.Quote(given))
}

func appendLeaseToken(b, token []byte) []byte { return hex.AppendEncode(b, token) }

// leaseMs returns a lease of the given seconds in milliseconds, or absent for 0 seconds. It refuses a
// negative length and more than job.MaxLease.
func leaseMs(f *Faults, field string, seconds int, absent time.Duration) int64 {
	if seconds == 0 {
		return absent.Milliseconds()
	}
	if most := int(job.MaxLease / time.Second); seconds < 0 || seconds > most {
		f.Invalid(field, "is %d; it must be from 1 to %d seconds", seconds, most)
		return 0
	}
	return int64(seconds) * 1000
}

// timeOf converts an instant to its API form; 0 becomes "".
func timeOf(ns int64) api.Time {
	if ns == 0 {
		return ""
	}
	return api.TimeOf(time.Unix(0, ns))
}
