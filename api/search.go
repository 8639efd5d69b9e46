package api

// SearchFilter says which jobs are meant; all that is given must hold. Times are
// instants, or dates, which are their midnight in UTC; after and before leave the
// instant itself out.
type SearchFilter struct {
	Queue       string   `json:"queue,omitempty"`
	State       []string `json:"state,omitempty"`         // any of these
	Priority    Priority `json:"priority,omitempty"`      // a word or its number
	Tags        Strings  `json:"tags,omitempty"`          // all of these
	JobIDPrefix string   `json:"job_id_prefix,omitempty"` // with "job_"

	PayloadContains string `json:"payload_contains,omitempty"` // of its JSON text, as it was sent
	PayloadJQ       string `json:"payload_jq,omitempty"`       // a condition on its payload

	CreatedAfter    Time `json:"created_after,omitempty"`
	CreatedBefore   Time `json:"created_before,omitempty"`
	ScheduledAfter  Time `json:"scheduled_after,omitempty"`
	ScheduledBefore Time `json:"scheduled_before,omitempty"`
	StartedAfter    Time `json:"started_after,omitempty"`
	StartedBefore   Time `json:"started_before,omitempty"`
	CompletedAfter  Time `json:"completed_after,omitempty"`
	CompletedBefore Time `json:"completed_before,omitempty"`
	ExpireAfter     Time `json:"expire_after,omitempty"` // its time is over after that
	ExpireBefore    Time `json:"expire_before,omitempty"`

	AttemptMin *int `json:"attempt_min,omitempty"`
	AttemptMax *int `json:"attempt_max,omitempty"`

	UniqueKey string `json:"unique_key,omitempty"` // it has, or had
	BatchID   string `json:"batch_id,omitempty"`   // it is a member of
	WorkerID  string `json:"worker_id,omitempty"`  // it ran, or runs, there
	ParentID  string `json:"parent_id,omitempty"`  // of the job that made it
	ChainID   string `json:"chain_id,omitempty"`   // it is a step of

	HasErrors     *bool  `json:"has_errors,omitempty"`
	ErrorContains string `json:"error_contains,omitempty"` // the text of one of its errors
}

// SearchRequest asks for a page of the jobs a filter means.
type SearchRequest struct {
	SearchFilter

	Sort   string `json:"sort,omitempty"`   // created_at, the default, priority, started_at, completed_at, failed_at or attempt
	Order  string `json:"order,omitempty"`  // asc or desc, the default; jobs without what is sorted by come last
	Cursor string `json:"cursor,omitempty"` // of an earlier answer to the same filter
	Limit  *int   `json:"limit,omitempty"`  // 1 to 1000, default 50
}

// SearchResponse is one page of jobs.
type SearchResponse struct {
	Jobs       []Job  `json:"jobs"`
	Total      int64  `json:"total"`            // on all pages
	Cursor     string `json:"cursor,omitempty"` // of the next page
	HasMore    bool   `json:"has_more"`
	DurationMs int64  `json:"duration_ms"`
	AsOf       Time   `json:"as_of"` // the answer shows everything up to this moment
	// TotalIsEstimate says that Total counts only a part.
	TotalIsEstimate bool `json:"total_is_estimate,omitempty"`
	// Partial says that the search ended, for PartialReason, before the page was full:
	// it goes on at Cursor. Sorted by another thing than created_at, the jobs up to
	// there are in order by themselves.
	Partial       bool   `json:"partial,omitempty"`
	PartialReason string `json:"partial_reason,omitempty"`
}

// BulkGetRequest asks for jobs by their ids.
type BulkGetRequest struct {
	JobIDs []string `json:"job_ids"`
}

// BulkGetResponse has those there are, in the order asked for.
type BulkGetResponse struct {
	Jobs []Job `json:"jobs"`
}
