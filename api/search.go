package api

// SearchRequest filters jobs; all that is given must hold.
type SearchRequest struct {
	Queue       string   `json:"queue,omitempty"`
	State       []string `json:"state,omitempty"`         // any of these
	JobIDPrefix string   `json:"job_id_prefix,omitempty"` // with "job_"

	UniqueKey    string `json:"unique_key,omitempty"`    // it has, or had
	BatchID      string `json:"batch_id,omitempty"`      // it is a member of
	ParentID     string `json:"parent_id,omitempty"`     // of the job that made it
	ChainID      string `json:"chain_id,omitempty"`      // it is a step of
	ExpireAfter  Time   `json:"expire_after,omitempty"`  // its time is over after that; a bare date is midnight UTC
	ExpireBefore Time   `json:"expire_before,omitempty"` // its time is over before that

	Sort   string `json:"sort,omitempty"`   // created_at, the default
	Order  string `json:"order,omitempty"`  // asc or desc, the default
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
	// TotalIsEstimate says that Total counts only a part.
	TotalIsEstimate bool `json:"total_is_estimate,omitempty"`
}
