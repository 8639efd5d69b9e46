package api

// SearchRequest filters jobs; all that is given must hold.
type SearchRequest struct {
	Queue       string   `json:"queue,omitempty"`
	State       []string `json:"state,omitempty"`         // any of these
	JobIDPrefix string   `json:"job_id_prefix,omitempty"` // with "job_"

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
