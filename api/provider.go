package api

// ProviderRequest declares a provider of models, with what it lets through in a
// minute; 0 or absent is unlimited.
type ProviderRequest struct {
	Name           string `json:"name"` // as jobs and queues name it
	RPMLimit       int64  `json:"rpm_limit,omitempty"`
	InputTPMLimit  int64  `json:"input_tpm_limit,omitempty"`
	OutputTPMLimit int64  `json:"output_tpm_limit,omitempty"`
}

// Provider is a provider of models, as GET /providers/{id} answers it. Every field is
// always present.
type Provider struct {
	Name           string `json:"name"`
	RPMLimit       int64  `json:"rpm_limit"` // 0 = unlimited
	InputTPMLimit  int64  `json:"input_tpm_limit"`
	OutputTPMLimit int64  `json:"output_tpm_limit"`
	CreatedAt      Time   `json:"created_at"`

	// What has gone to it in the last minute, and what running jobs are expected to use
	// besides.
	RequestsLastMinute     int64 `json:"requests_last_minute"`
	InputTokensLastMinute  int64 `json:"input_tokens_last_minute"`
	OutputTokensLastMinute int64 `json:"output_tokens_last_minute"`
	ReservedInputTokens    int64 `json:"reserved_input_tokens"`
	ReservedOutputTokens   int64 `json:"reserved_output_tokens"`
	WaitingJobs            int64 `json:"waiting_jobs"` // that its limits keep

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}
