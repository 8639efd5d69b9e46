package api

import "encoding/json"

// Event is something that happened, as GET /events and its like tell of it. Every
// field is always present in its JSON.
type Event struct {
	Seq   uint64          `json:"seq"`    // its place in the feed of its shard, from 1, with gaps
	Shard int             `json:"shard"`  // 0 where the namespace has one
	Type  string          `json:"type"`   // such as completed
	JobID string          `json:"job_id"` // "": it is about no job
	Queue string          `json:"queue"`  // "": it is about no queue
	AtNs  int64           `json:"at_ns"`  // when it happened, in Unix nanoseconds
	Data  json.RawMessage `json:"data"`   // an object; what it has depends on the type
}

// EventReset is the type of the event that says that a stream leaves events out. The
// data's reason says why, and its next_seq is the sequence that the stream goes on with.
// The client must read by other means what it missed.
const EventReset = "RESET"

// Reasons of a RESET event, in its data's reason.
const (
	ResetTrimmed = "trimmed" // the events are not kept any more, or never were
	ResetLag     = "lag"     // the client read too slowly; the events can still be read page by page
)

// EventPage answers GET /cluster/events.
type EventPage struct {
	Events []Event `json:"events"`
	// Cursor is after_seq of the next page, and last_event_id of a stream that goes on
	// from here.
	Cursor  string `json:"cursor"`
	HasMore bool   `json:"has_more"`
}

// JobEvents answers GET /jobs/{id}/events: what happened to a job, oldest first.
type JobEvents struct {
	Events []JobEvent `json:"events"`
	// Dropped is how many more there were: of a long history the first ones are kept and
	// the last, and these lie in between.
	Dropped int64 `json:"dropped"`
}

// JobEvent is an event of a job's history.
type JobEvent struct {
	Type    string          `json:"type"`
	At      Time            `json:"at"`
	Attempt int             `json:"attempt"` // attempts counted then
	Data    json.RawMessage `json:"data"`    // what is still known of it
}
