package server

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/state/event"
	"github.com/corvo/corvo/tenancy"
)

// eventFilter lists the query parameters that select events.
var eventFilter = []serve.Param{
	{Name: "queues", Doc: "queues, separated by commas; default all"},
	{Name: "job_ids", Doc: "job ids, separated by commas; default all"},
	{Name: "types", Doc: "event types, separated by commas; default all"},
}

// eventQuery selects events for a principal.
type eventQuery struct {
	who    tenancy.Principal
	queues []string // nil = all, as in jobs and types
	jobs   map[job.ID]bool
	types  []string
}

// parseEvents parses the event filter of a request.
func (q *request) parseEvents(query url.Values) (*eventQuery, error) {
	var f convert.Faults
	return q.queryEvents(&f, listOf(&f, query, "queues"), listOf(&f, query, "job_ids"), listOf(&f, query, "types"))
}

// queryEvents checks an event filter and the caller's right to read the selected queues; a nil list selects
// all.
func (q *request) queryEvents(f *convert.Faults, queues, jobs, types []string) (*eventQuery, error) {
	out := &eventQuery{who: q.who, queues: queues, types: types}
	for _, name := range out.queues {
		if err := job.CheckQueueName(name); err != nil {
			f.Invalid("queues", "%v", err)
		}
	}
	for _, word := range out.types {
		if !slices.Contains(event.Types, word) {
			f.Invalid("types", "%s is none: use %s", text.Quote(word), strings.Join(event.Types, ", "))
		}
	}
	for _, given := range jobs {
		id, err := job.ParseID(given)
		if err != nil {
			f.Invalid("job_ids", "%s is not a job id", text.Quote(given))
		}
		if out.jobs == nil {
			out.jobs = map[job.ID]bool{}
		}
		out.jobs[id] = true
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return out, q.allow(tenancy.JobRead, out.queues...)
}

// listOf parses a comma-separated list.
func listOf(f *convert.Faults, query url.Values, name string) []string {
	text := query.Get(name)
	if text == "" {
		return nil
	}
	return filterOf(f, name, strings.Split(text, ","))
}

// filterOf checks the length of a list. It returns nil, which selects all, for an empty list. For a list that
// is too long it adds a fault and returns nil.
func filterOf(f *convert.Faults, name string, list []string) []string {
	if len(list) > job.MaxEventFilter {
		f.Invalid(name, "has %d elements; at most %d are allowed", len(list), job.MaxEventFilter)
		return nil
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// wants reports whether the filter may select an event, by its type and job. It selects no event of an
// internal type.
func (q *eventQuery) wants(e *state.Event) bool {
	word, ok := event.Word(e.Type)
	if !ok || q.types != nil && !slices.Contains(q.types, word) {
		return false
	}
	return q.jobs == nil || len(e.JobId) == len(job.ID{}) && q.jobs[job.ID(e.JobId)]
}

// shows reports whether events of a queue are selected and the caller may see them. Events without a queue
// are shown only to callers who may see every queue.
func (q *eventQuery) shows(queue string) bool {
	if q.queues != nil && !slices.Contains(q.queues, queue) {
		return false
	}
	return q.all() || queue != "" && q.who.Covers(queue)
}

// all reports whether the caller may see every queue.
func (q *eventQuery) all() bool { return len(q.who.QueueScope) == 0 }

// show returns the event as the caller may see it, or nil. The cheap checks come first, because most streams
// select few events.
func (q *eventQuery) show(v snapshots, shard int, e *sharedEvent) (*eventView, error) {
	if !q.wants(e.raw) {
		return nil, nil
	}
	if !q.shows(e.raw.Queue) {
		return nil, nil
	}
	view, err := e.view(v, shard, q.who.Covers(e.raw.FromQueue))
	if err != nil || view.event == nil {
		return nil, err
	}
	return view, nil
}

// seqs is a position in the feeds of all shards: for each shard, the sequence of the last event that was
// read. Its text is the decimal numbers joined by dashes. The text "0" is the position before the oldest
// event of every shard.
type seqs []uint64

func (s seqs) String() string {
	b := make([]byte, 0, 16)
	for i, seq := range s {
		if i > 0 {
			b = append(b, '-')
		}
		b = strconv.AppendUint(b, seq, 10)
	}
	return string(b)
}

// parseSeqs parses the text that String returns, or "0". It refuses any other text with VALIDATION_ERROR.
func parseSeqs(name, text string, cells []*cell.Cell) (seqs, error) {
	out := make(seqs, len(cells))
	if text == "0" {
		return out, nil
	}
	parts := strings.Split(text, "-")
	if len(parts) != len(cells) {
		return nil, notAPlace(name, text)
	}
	for i, part := range parts {
		var err error
		if out[i], err = strconv.ParseUint(part, 10, 64); err != nil {
			return nil, notAPlace(name, text)
		}
	}
	return out, nil
}

func notAPlace(name, given string) error {
	return api.Errorf(api.ValidationError, "%s %s is not the id of an event of this namespace: use 0 to begin with the oldest, or leave it out", name, text.Quote(given))
}

// latest returns the position after the last event that this node has of each shard.
func latest(cells []*cell.Cell) seqs {
	out := make(seqs, len(cells))
	for i, c := range cells {
		out[i] = c.State().Head().FeedNextSeq - 1
	}
	return out
}

// lastEventID returns the position that a stream continues after, or "" for new events only. The header
// overrides the query, because an EventSource that lost its connection opens its old URL again and sends its
// position in the header.
func lastEventID(r *http.Request) string {
	return cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("last_event_id"))
}
