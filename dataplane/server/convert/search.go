package convert

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// SearchBody is the body of POST /jobs/search.
type SearchBody struct {
	api.SearchRequest
	unbuiltSearch
}

// Search is a search with its defaults.
type Search struct {
	Queue     string
	States    []job.State // any of them
	IDPrefix  string
	Ascending bool // oldest first
	narrow
	Limit  int
	Cursor string
}

const sortCreated = "created_at"

// unbuiltSorts are documented orders that the view does not have.
var unbuiltSorts = []string{"priority", "started_at", "completed_at", "attempt"}

// FromSearch reads a search.
func FromSearch(f *Faults, b *SearchBody) Search {
	b.unbuiltSearch.report(f)
	q := Search{narrow: fromNarrow(f, &b.SearchRequest), Queue: b.Queue, IDPrefix: b.JobIDPrefix, Cursor: b.Cursor, Limit: job.DefaultSearchLimit}
	if b.Queue != "" {
		if err := job.CheckQueueName(b.Queue); err != nil {
			f.Invalid("queue", "%v", err)
		}
	}
	for i, word := range b.State {
		s, ok := job.ParseState(word)
		if !ok {
			f.Invalid(fmt.Sprintf("state[%d]", i), "%s is not a state", Excerpt(word))
		}
		q.States = append(q.States, s)
	}
	switch {
	case b.Sort == "" || b.Sort == sortCreated:
	case slices.Contains(unbuiltSorts, b.Sort):
		f.Unsupported("sort")
	default:
		f.Invalid("sort", "%s is not an order: use %s", Excerpt(b.Sort), sortCreated)
	}
	switch b.Order {
	case "", "desc":
	case "asc":
		q.Ascending = true
	default:
		f.Invalid("order", "%s is neither asc nor desc", Excerpt(b.Order))
	}
	if n := b.Limit; n != nil {
		if *n < 1 || *n > job.MaxSearchLimit {
			f.Invalid("limit", "is %d; it takes 1 to %d", *n, job.MaxSearchLimit)
		}
		q.Limit = *n
	}
	return q
}

// unbuiltSearch are fields not built of a search.
type unbuiltSearch struct {
	Priority        json.RawMessage `json:"priority"`
	Tags            json.RawMessage `json:"tags"`
	PayloadContains json.RawMessage `json:"payload_contains"`
	PayloadJQ       json.RawMessage `json:"payload_jq"`
	CreatedAfter    json.RawMessage `json:"created_after"`
	CreatedBefore   json.RawMessage `json:"created_before"`
	ScheduledAfter  json.RawMessage `json:"scheduled_after"`
	ScheduledBefore json.RawMessage `json:"scheduled_before"`
	StartedAfter    json.RawMessage `json:"started_after"`
	StartedBefore   json.RawMessage `json:"started_before"`
	CompletedAfter  json.RawMessage `json:"completed_after"`
	CompletedBefore json.RawMessage `json:"completed_before"`
	AttemptMin      json.RawMessage `json:"attempt_min"`
	AttemptMax      json.RawMessage `json:"attempt_max"`
	WorkerID        json.RawMessage `json:"worker_id"`
	HasErrors       json.RawMessage `json:"has_errors"`
	ErrorContains   json.RawMessage `json:"error_contains"`
}

// report names those that are set. Here 0 and false ask for something: priority
// 0 is critical.
func (u *unbuiltSearch) report(f *Faults) {
	for _, field := range []rawField{
		{"priority", u.Priority}, {"attempt_min", u.AttemptMin}, {"attempt_max", u.AttemptMax}, {"has_errors", u.HasErrors},
	} {
		if !Absent(field.raw) && string(field.raw) != `""` {
			f.Unsupported(field.name)
		}
	}
	reportSet(f, []rawField{
		{"tags", u.Tags}, {"payload_contains", u.PayloadContains}, {"payload_jq", u.PayloadJQ},
		{"created_after", u.CreatedAfter}, {"created_before", u.CreatedBefore},
		{"scheduled_after", u.ScheduledAfter}, {"scheduled_before", u.ScheduledBefore},
		{"started_after", u.StartedAfter}, {"started_before", u.StartedBefore},
		{"completed_after", u.CompletedAfter}, {"completed_before", u.CompletedBefore},
		{"worker_id", u.WorkerID}, {"error_contains", u.ErrorContains},
	})
}
