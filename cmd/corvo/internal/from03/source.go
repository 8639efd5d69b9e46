package from03

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/corvo/corvo/api/text"
)

const (
	// maxAnswer bounds one response of the original. A page of 1,000 jobs with payloads of 1 MiB would be
	// larger; pageJobs keeps pages of jobs with ordinary payloads far below it.
	maxAnswer = 256 << 20
	// maxExcerpt bounds the part of a refusal that an error repeats, in bytes.
	maxExcerpt = 200
	pageJobs   = 200
	// sourceTimeout bounds one request to the original.
	sourceTimeout = 60 * time.Second
)

// errAbsent reports that the original has no such route or no such job.
var errAbsent = errors.New("not found on the original")

// Source reads a running Corvo 0.3.
type Source struct {
	base string
	key  string
	http *http.Client
}

// NewSource returns a reader of the server at a URL such as "http://old:8080". The key may be empty for a
// server without authentication.
func NewSource(endpoint, key string) (*Source, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not the URL of a server: write it like http://old-host:8080", endpoint)
	}
	return &Source{base: strings.TrimRight(u.String(), "/"), key: key, http: &http.Client{Timeout: sourceTimeout}}, nil
}

// check refuses a server that is not Corvo 0.3. It asks for /api/v1/info, because servers of this version
// answer it and 0.3 does not.
func (s *Source) check(ctx context.Context) error {
	var info struct {
		Version string `json:"server_version"`
	}
	err := s.get(ctx, "/api/v1/info", &info)
	switch {
	case err == nil:
		return fmt.Errorf("%s is Corvo %s, not 0.3: to copy a server of this version, use `corvo admin backup` and `corvo admin restore`", s.base, info.Version)
	case !errors.Is(err, errAbsent):
		return err
	}
	var queues []json.RawMessage
	return s.get(ctx, "/api/v1/queues", &queues)
}

func (s *Source) get(ctx context.Context, path string, out any) error {
	return s.ask(ctx, http.MethodGet, path, nil, out)
}

// ask sends one request and decodes the response. Documents stay raw JSON, so that numbers in them keep their
// text.
func (s *Source) ask(ctx context.Context, method, path string, body, out any) error {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, sent)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		// The error is not wrapped, because the command would take it for one of the new node.
		return fmt.Errorf("%v: start Corvo 0.3 there, or give its URL with --from-0.3", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, s.base+path, err)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed:
		return fmt.Errorf("%s %s: %w", method, s.base+path, errAbsent)
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s %s: status %d: %q: give an admin key or the admin password of the original with --from-key-file or CORVO_FROM_KEY",
			method, s.base+path, resp.StatusCode, text.Cut(bytes.TrimSpace(answer), maxExcerpt))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: status %d: %q", method, s.base+path, resp.StatusCode, text.Cut(bytes.TrimSpace(answer), maxExcerpt))
	case len(answer) > maxAnswer:
		return fmt.Errorf("%s %s: the answer is larger than %d bytes", method, s.base+path, maxAnswer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s %s: the answer is not an answer of Corvo 0.3: %w", method, s.base+path, err)
	}
	return nil
}

// The documents of 0.3, as far as a run copies them.

// job is a job of the original.
type job struct {
	ID               string          `json:"id"`
	Queue            string          `json:"queue"`
	State            string          `json:"state"`
	Payload          json.RawMessage `json:"payload"`
	Priority         int             `json:"priority"`
	Attempt          int             `json:"attempt"`
	MaxRetries       int             `json:"max_retries"`
	RetryBackoff     string          `json:"retry_backoff"`
	RetryBaseDelayMs int64           `json:"retry_base_delay_ms"`
	RetryMaxDelayMs  int64           `json:"retry_max_delay_ms"`
	UniqueKey        string          `json:"unique_key"`
	BatchID          string          `json:"batch_id"`
	Tags             json.RawMessage `json:"tags"`
	Checkpoint       json.RawMessage `json:"checkpoint"`
	ResultSchema     json.RawMessage `json:"result_schema"`
	ScheduledAt      *time.Time      `json:"scheduled_at"`
	ExpireAt         *time.Time      `json:"expire_at"`
	ParentID         string          `json:"parent_id"`
	ChainStep        *int            `json:"chain_step"`
	ChainConfig      json.RawMessage `json:"chain_config"`
	Routing          json.RawMessage `json:"routing"`
	Errors           []jobError      `json:"errors"`
	Agent            *agent          `json:"agent"`
	HoldReason       string          `json:"hold_reason"`
}

type jobError struct {
	Attempt int    `json:"attempt"`
	Error   string `json:"error"`
}

type agent struct {
	MaxIterations    int         `json:"max_iterations"`
	MaxCostUSD       json.Number `json:"max_cost_usd"`
	IterationTimeout string      `json:"iteration_timeout"`
	Iteration        int         `json:"iteration"`
	TotalCostUSD     json.Number `json:"total_cost_usd"`
}

// page is the response to a search.
type page struct {
	Jobs []struct {
		ID string `json:"id"`
	} `json:"jobs"`
	Total   int    `json:"total"`
	Cursor  string `json:"cursor"`
	HasMore bool   `json:"has_more"`
}

// search reads one page of the jobs in some states, oldest first, of all queues or one.
func (s *Source) search(ctx context.Context, queue string, states []string, limit int, cursor string) (page, error) {
	var p page
	err := s.ask(ctx, http.MethodPost, "/api/v1/jobs/search", map[string]any{
		"queue": queue, "state": states, "sort": "created_at", "order": "asc", "limit": limit, "cursor": cursor,
	}, &p)
	return p, err
}

// job reads one job with its payload.
func (s *Source) job(ctx context.Context, id string) (job, error) {
	var j job
	err := s.get(ctx, "/api/v1/jobs/"+url.PathEscape(id), &j)
	return j, err
}
