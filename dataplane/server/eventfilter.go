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

// eventFilter are the query parameters that choose events.
var eventFilter = []serve.Param{
	{Name: "queues", Doc: "queues, separated by commas; default all"},
	{Name: "job_ids", Doc: "job ids, separated by commas; default all"},
	{Name: "types", Doc: "event types, separated by commas; default all"},
}

// eventQuery is which events are asked for, and by whom.
type eventQuery struct {
	who    tenancy.Principal
	queues []string // nil: all
	jobs   map[job.ID]bool
	types  []string
}

// parseEvents reads what a request asks for.
func (q *request) parseEvents(query url.Values) (*eventQuery, error) {
	var f convert.Faults
	return q.queryEvents(&f, listOf(&f, query, "queues"), listOf(&f, query, "job_ids"), listOf(&f, query, "types"))
}

// queryEvents checks which events are asked for; nil lists are all there are.
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

// listOf is a list separated by commas.
func listOf(f *convert.Faults, query url.Values, name string) []string {
	text := query.Get(name)
	if text == "" {
		return nil
	}
	return filterOf(f, name, strings.Split(text, ","))
}

// filterOf is a list of bounded length; one without elements says nothing.
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

// wants says whether an event of the feed may be one that is asked for.
func (q *eventQuery) wants(e *state.Event) bool {
	word, ok := event.Word(e.Type)
	if !ok || q.types != nil && !slices.Contains(q.types, word) {
		return false
	}
	return q.jobs == nil || len(e.JobId) == len(job.ID{}) && q.jobs[job.ID(e.JobId)]
}

// shows says whether events of a queue are asked for and may be seen. Those about no
// queue are shown to those alone who may see all.
func (q *eventQuery) shows(queue string) bool {
	if q.queues != nil && !slices.Contains(q.queues, queue) {
		return false
	}
	return q.all() || queue != "" && q.who.Covers(queue)
}

// all says whether the caller may see every queue.
func (q *eventQuery) all() bool { return len(q.who.QueueScope) == 0 }

// show is an event as the caller is shown it; nil if it is not. The cheap questions come
// first: most streams want few events.
func (q *eventQuery) show(v snapshots, shard int, e *sharedEvent) (*eventView, error) {
	if !q.wants(e.raw) {
		return nil, nil
	}
	if e.raw.Type != state.EventType_EVENT_BATCH_COMPLETED && !q.shows(e.raw.Queue) {
		return nil, nil // only a batch's event is told of another queue than the feed's
	}
	view, err := e.view(v, shard, q.who.Covers(e.raw.FromQueue))
	if err != nil || view.told == nil || !q.shows(view.told.Queue) {
		return nil, err
	}
	return view, nil
}

// seqs is a place in the feeds of all shards: the sequence of the last event of each
// that was seen. As text they are decimal numbers with a dash in between; 0 is before
// the oldest of all.
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

// parseSeqs reads what String printed.
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

// latest is the place behind all that the shards have.
func latest(cells []*cell.Cell) seqs {
	out := make(seqs, len(cells))
	for i, c := range cells {
		out[i] = c.State().Head().FeedNextSeq - 1
	}
	return out
}

// lastEventID is where a stream is to go on; "" for what comes next. An EventSource that
// was cut off opens the URL it began with again, and says in the header where it was.
func lastEventID(r *http.Request) string {
	return cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("last_event_id"))
}
