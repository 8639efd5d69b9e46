package api

// ProviderRequest declares a provider of models and its limits per minute, up to 10^9 each; 0 or absent =
// unlimited.
type ProviderRequest struct {
	Name           string `json:"name"` // the name in jobs and queues; a PUT has it in the URL path
	RPMLimit       int64  `json:"rpm_limit,omitempty"`
	InputTPMLimit  int64  `json:"input_tpm_limit,omitempty"`
	OutputTPMLimit int64  `json:"output_tpm_limit,omitempty"`
}

// Provider is the response of GET /providers/{id}. Its JSON always has every field.
type Provider struct {
	Name           string `json:"name"`
	RPMLimit       int64  `json:"rpm_limit"` // 0 = unlimited
	InputTPMLimit  int64  `json:"input_tpm_limit"`
	OutputTPMLimit int64  `json:"output_tpm_limit"`
	CreatedAt      Time   `json:"created_at"`

	// The use in the last minute, and the tokens that running jobs are expected to use.
	RequestsLastMinute     int64 `json:"requests_last_minute"`
	InputTokensLastMinute  int64 `json:"input_tokens_last_minute"`
	OutputTokensLastMinute int64 `json:"output_tokens_last_minute"`
	ReservedInputTokens    int64 `json:"reserved_input_tokens"`
	ReservedOutputTokens   int64 `json:"reserved_output_tokens"`
	WaitingJobs            int64 `json:"waiting_jobs"` // jobs that its limits delay

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}
