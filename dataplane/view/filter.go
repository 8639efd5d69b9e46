package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fault"
	apitext "github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/view/jq"
)

// ParseFilter converts a client's filter to a query. Its error names every wrong field. The error's code is
// VALIDATION_ERROR, or INVALID_FILTER if only the syntax of payload_jq is wrong. The details give the position
// of a wrong syntax.
func ParseFilter(f api.SearchFilter) (Query, error) {
	var w wrong
	q := w.filter(&f)
	return q, w.Err()
}

// ParseSearch converts a client's search request, which has a filter, an order and a page, to a query. Its
// errors are those of ParseFilter.
func ParseSearch(r api.SearchRequest) (Query, error) {
	var w wrong
	q := w.filter(&r.SearchFilter)
	q.Cursor = r.Cursor
	q.Sort = Sort(r.Sort)
	if r.Sort == "" {
		q.Sort = SortCreated
	} else if !slices.Contains(sorts, q.Sort) {
		w.Invalid("sort", "%s is not an order: use %s", apitext.Quote(r.Sort), sortWords())
	}
	q.Order = Order(r.Order)
	switch q.Order {
	case "":
		q.Order = Descending
	case Descending, Ascending:
	default:
		w.Invalid("order", "%s is neither asc nor desc", apitext.Quote(r.Order))
	}
	q.Limit = w.limit(r.Limit, job.DefaultSearchLimit)
	return q, w.Err()
}

// ParseWords converts a full-text search to a query. A nil limit means job.DefaultSearchLimit. The code of its
// error is VALIDATION_ERROR.
func ParseWords(text string, limit *int, cursor string) (Query, error) {
	var w wrong
	q := Query{Words: text, Cursor: cursor, Sort: SortCreated, Order: Descending, Limit: w.limit(limit, job.DefaultSearchLimit)}
	if len(text) > job.MaxSearchText {
		w.Invalid("q", "has %d bytes, at most %d are taken", len(text), job.MaxSearchText)
	} else if match, err := matchText(text); err != nil {
		w.Invalid("q", "%v", err)
	} else if match == "" {
		w.Invalid("q", "has no word to look for")
	}
	return q, w.Err()
}

// wrong collects the faults of a filter.
type wrong struct{ fault.List }

func (w *wrong) filter(f *api.SearchFilter) Query {
	q := Query{
		Queue: f.Queue, IDPrefix: f.JobIDPrefix, Tags: f.Tags, PayloadContains: f.PayloadContains, PayloadJQ: f.PayloadJQ,
		UniqueKey: f.UniqueKey, WorkerID: f.WorkerID, HasErrors: f.HasErrors, ErrorContains: f.ErrorContains,
		AttemptMin: f.AttemptMin, AttemptMax: f.AttemptMax,

		BatchID:  w.id("batch_id", batchPrefix, f.BatchID),
		ParentID: w.id("parent_id", job.IDPrefix, f.ParentID),
		ChainID:  w.id("chain_id", chainPrefix, f.ChainID),

		CreatedAfter:    w.time("created_after", f.CreatedAfter),
		CreatedBefore:   w.time("created_before", f.CreatedBefore),
		ScheduledAfter:  w.time("scheduled_after", f.ScheduledAfter),
		ScheduledBefore: w.time("scheduled_before", f.ScheduledBefore),
		StartedAfter:    w.time("started_after", f.StartedAfter),
		StartedBefore:   w.time("started_before", f.StartedBefore),
		CompletedAfter:  w.time("completed_after", f.CompletedAfter),
		CompletedBefore: w.time("completed_before", f.CompletedBefore),
		ExpireAfter:     w.time("expire_after", f.ExpireAfter),
		ExpireBefore:    w.time("expire_before", f.ExpireBefore),
	}
	if f.Queue != "" {
		if err := job.CheckQueueName(f.Queue); err != nil {
			w.Invalid("queue", "%v", err)
		}
	}
	if len(f.JobIDPrefix) > idLength {
		w.Invalid("job_id_prefix", "has %d characters, an id has %d", len(f.JobIDPrefix), idLength)
	}
	for i, word := range f.State {
		s, ok := job.ParseState(word)
		if !ok {
			w.Invalid(fmt.Sprintf("state[%d]", i), "%s is not a state: use %s", apitext.Quote(word), allStateWords())
		}
		q.States = append(q.States, s)
	}
	level, ok, err := f.Priority.Level()
	switch {
	case err != nil:
		w.Invalid("priority", "%v", err)
	case ok:
		q.Priority = &level
	}
	if len(f.Tags) > job.MaxTags {
		w.Invalid("tags", "there are %d, a job has at most %d", len(f.Tags), job.MaxTags)
	}
	w.text("unique_key", f.UniqueKey, job.MaxUniqueKey)
	w.text("worker_id", f.WorkerID, job.MaxWorkerID)
	w.text("payload_contains", f.PayloadContains, job.MaxSearchText)
	w.text("error_contains", f.ErrorContains, job.MaxSearchText)
	w.expression(f.PayloadJQ)
	return q
}

// allStateWords returns the names of all states.
func allStateWords() string {
	var all []string
	for s := job.State_STATE_UNSPECIFIED + 1; s < job.States; s++ {
		all = append(all, s.Word())
	}
	return strings.Join(all, ", ")
}

func (w *wrong) limit(asked *int, absent int) int {
	if asked == nil {
		return absent
	}
	if *asked < 1 || *asked > job.MaxSearchLimit {
		w.Invalid("limit", "is %d; it takes 1 to %d", *asked, job.MaxSearchLimit)
	}
	return *asked
}

func (w *wrong) text(field, text string, most int) {
	if err := job.CheckText(text, most); err != nil {
		w.Invalid(field, "%v", err)
	}
}

// expression adds a fault if the jq condition on payloads is wrong.
func (w *wrong) expression(text string) {
	if text == "" {
		return
	}
	_, err := jq.Parse(text)
	var at *jq.Error
	switch {
	case errors.As(err, &at):
		w.Detail("position", at.Position)
		w.Add(api.InvalidFilter, "payload_jq", "is not understood %v", at)
	case err != nil:
		w.Invalid("payload_jq", "%v", err)
	}
}

// id parses an id that starts with prefix. It returns the zero id for "", because no job, batch or chain has
// that id.
func (w *wrong) id(field, prefix, text string) job.ID {
	if text == "" {
		return job.ID{}
	}
	rest, ok := strings.CutPrefix(text, prefix)
	id, err := job.ParseID(job.IDPrefix + rest)
	if !ok || err != nil || id == (job.ID{}) {
		w.Invalid(field, "%s is not one: it starts with %q and 26 characters follow", apitext.Quote(text), prefix)
	}
	return id
}

// time parses an instant or a date. A date stands for its midnight in UTC.
func (w *wrong) time(field string, text api.Time) time.Time {
	if _, err := time.Parse(time.DateOnly, string(text)); err == nil {
		text += "T00:00:00Z"
	}
	at, asked, err := text.Parse()
	if err != nil {
		w.Invalid(field, "%v, nor a date like \"2026-02-11\"", err)
	}
	if asked && at.IsZero() {
		at = at.Add(1) // the zero time means no condition, and no job is that old
	}
	return at
}
