package api

// SearchFilter selects the jobs that meet all given conditions. A time is an instant, or a date, which means
// midnight in UTC. A condition named after or before excludes the instant itself.
type SearchFilter struct {
	Queue       string   `json:"queue,omitempty"`
	State       []string `json:"state,omitempty"`         // any of these
	Priority    Priority `json:"priority,omitempty"`      // a word or its number
	Tags        Strings  `json:"tags,omitempty"`          // all of these
	JobIDPrefix string   `json:"job_id_prefix,omitempty"` // including "job_"

	PayloadContains string `json:"payload_contains,omitempty"` // a part of its JSON text as it was sent
	PayloadJQ       string `json:"payload_jq,omitempty"`       // a condition on the payload

	CreatedAfter    Time `json:"created_after,omitempty"`
	CreatedBefore   Time `json:"created_before,omitempty"`
	ScheduledAfter  Time `json:"scheduled_after,omitempty"`
	ScheduledBefore Time `json:"scheduled_before,omitempty"`
	StartedAfter    Time `json:"started_after,omitempty"`
	StartedBefore   Time `json:"started_before,omitempty"`
	CompletedAfter  Time `json:"completed_after,omitempty"`
	CompletedBefore Time `json:"completed_before,omitempty"`
	ExpireAfter     Time `json:"expire_after,omitempty"` // the end of its lifetime
	ExpireBefore    Time `json:"expire_before,omitempty"`

	AttemptMin *int `json:"attempt_min,omitempty"`
	AttemptMax *int `json:"attempt_max,omitempty"`

	UniqueKey string `json:"unique_key,omitempty"` // that the job holds or held
	BatchID   string `json:"batch_id,omitempty"`   // of the batch that the job belongs to
	WorkerID  string `json:"worker_id,omitempty"`  // of a worker that runs the job or ran it
	ParentID  string `json:"parent_id,omitempty"`  // of the job that created it
	ChainID   string `json:"chain_id,omitempty"`   // of the chain that the job is a step of

	HasErrors     *bool  `json:"has_errors,omitempty"`
	ErrorContains string `json:"error_contains,omitempty"` // a part of one of its errors
}

// SearchRequest asks for a page of the jobs that match a filter.
type SearchRequest struct {
	SearchFilter

	Sort   string `json:"sort,omitempty"`   // created_at (the default), priority, started_at, completed_at, failed_at or attempt
	Order  string `json:"order,omitempty"`  // asc or desc (the default); jobs without the sorted value come last
	Cursor string `json:"cursor,omitempty"` // of an earlier response for the same filter
	Limit  *int   `json:"limit,omitempty"`  // 1 to 1000, default 50
}

// SearchResponse is one page of jobs.
type SearchResponse struct {
	Jobs       []Job  `json:"jobs"`
	Total      int64  `json:"total"`            // on all pages
	Cursor     string `json:"cursor,omitempty"` // of the next page
	HasMore    bool   `json:"has_more"`
	DurationMs int64  `json:"duration_ms"`
	AsOf       Time   `json:"as_of"` // the response includes everything up to this moment
	// TotalIsEstimate means that Total counts only some of the jobs.
	TotalIsEstimate bool `json:"total_is_estimate,omitempty"`
	// Partial means that the search stopped before the page was full, or sorted only some of the jobs, because
	// of PartialReason. The next request continues at Cursor. If Sort is not created_at, the jobs of this
	// response are sorted only among themselves.
	Partial       bool   `json:"partial,omitempty"`
	PartialReason string `json:"partial_reason,omitempty"`
}

// BulkGetRequest asks for up to 1,000 jobs by their ids. The error is PAYLOAD_TOO_LARGE if their documents
// have more than 64 MiB.
type BulkGetRequest struct {
	JobIDs []string `json:"job_ids"`
}

// BulkGetResponse lists the jobs that exist and that the caller may see, in the order of the request. It
// leaves out all other ids.
type BulkGetResponse struct {
	Jobs []Job `json:"jobs"`
}
