package api

import "encoding/json"

// Event is an event of GET /events and similar streams. Its JSON always has every field.
type Event struct {
	Seq   uint64          `json:"seq"`    // position in the feed of its shard, from 1, with gaps
	Shard int             `json:"shard"`  // 0 in a namespace of one shard
	Type  string          `json:"type"`   // such as completed
	JobID string          `json:"job_id"` // "" = not about a job
	Queue string          `json:"queue"`  // "" = not about a queue
	AtNs  int64           `json:"at_ns"`  // time of the event in Unix nanoseconds
	Data  json.RawMessage `json:"data"`   // an object whose fields depend on the type
}

// EventReset is the type of the event that reports that a stream skips events. Its data has the reason and
// next_seq, the sequence number of the next event in the stream. The client must get the skipped events in
// another way.
const EventReset = "RESET"

// The reasons in the data of a RESET event.
const (
	ResetTrimmed = "trimmed" // the events are no longer stored, or never were
	ResetLag     = "lag"     // the client reads too slowly; it can still read the events page by page
)

// EventPage is the response of GET /cluster/events.
type EventPage struct {
	Events []Event `json:"events"`
	// Cursor is after_seq for the next page, and last_event_id for a stream that continues from here.
	Cursor  string `json:"cursor"`
	HasMore bool   `json:"has_more"`
}

// JobEvents is the response of GET /jobs/{id}/events: the history of a job, the oldest event first.
type JobEvents struct {
	Events []JobEvent `json:"events"`
	// Dropped is the number of events missing from the middle of a long history, because only the first and
	// last events are kept.
	Dropped int64 `json:"dropped"`
}

// JobEvent is an event of a job's history.
type JobEvent struct {
	Type    string          `json:"type"`
	At      Time            `json:"at"`
	Attempt int             `json:"attempt"` // attempts counted at that time
	Data    json.RawMessage `json:"data"`    // as far as the job still has it
}
