package from03

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing/money"
)

// The states of 0.3's jobs.
const (
	pending   = "pending"
	scheduled = "scheduled"
	retrying  = "retrying"
	active    = "active"
	held      = "held"
	dead      = "dead"
	completed = "completed"
	cancelled = "cancelled"
)

// unfinished lists the states whose jobs are copied. Dead jobs are among them, because somebody may still
// want to retry them. An active job is copied as pending. Its worker may also finish it on the original,
// because any job whose worker is cut off may run twice.
var (
	unfinished = []string{pending, scheduled, retrying, active, held, dead}
	finished   = []string{completed, cancelled}
)

// parkedFor is how far ahead a job is scheduled before it is held or rejected, so that no worker fetches it
// meanwhile. It is less than the ten years that a job may be scheduled ahead.
const parkedFor = 9 * 365 * 24 * time.Hour

// errExpired reports that a job has expired.
var errExpired = errors.New("the job has expired")

// request builds the request that creates a job again. lost names the parts that the request cannot carry.
// parent is the new id of the job's parent, if the run copied the parent.
func (j *job) request(now time.Time, parent string) (req api.EnqueueRequest, lost []string, err error) {
	req = api.EnqueueRequest{
		Queue:          j.Queue,
		Payload:        j.Payload,
		Priority:       priority(j.Priority),
		RetryBackoff:   j.RetryBackoff,
		RetryBaseDelay: milliseconds(j.RetryBaseDelayMs),
		RetryMaxDelay:  milliseconds(j.RetryMaxDelayMs),
		UniqueKey:      j.UniqueKey,
		ParentID:       parent,
		Checkpoint:     present(j.Checkpoint),
		ResultSchema:   present(j.ResultSchema),
	}
	attempts := j.attempts()
	req.MaxRetries = &attempts
	if req.ExpireAfter, err = j.expireAfter(now); err != nil {
		return req, nil, err
	}
	if req.Tags, err = j.tags(); err != nil {
		return req, nil, err
	}
	if req.Agent, err = j.Agent.request(); err != nil {
		return req, nil, err
	}
	if req.Chain, err = j.chain(); err != nil {
		return req, nil, err
	}
	switch {
	case j.parked():
		req.ScheduledAt = api.TimeOf(now.Add(parkedFor))
	case j.ScheduledAt != nil && (j.State == scheduled || j.State == retrying):
		req.ScheduledAt = api.TimeOf(*j.ScheduledAt)
	}
	if j.BatchID != "" {
		lost = append(lost, "its batch "+j.BatchID)
	}
	if present(j.Routing) != nil {
		lost = append(lost, "its routing")
	}
	if j.ParentID != "" && parent == "" {
		lost = append(lost, "its parent "+j.ParentID)
	}
	return req, lost, nil
}

// parked reports whether the copy of the job is scheduled first and then held.
func (j *job) parked() bool { return j.State == held || j.State == dead }

// attempts returns the attempts that the job has left. A dead job keeps all, because a retry begins again
// with the first.
func (j *job) attempts() int {
	if j.State == dead {
		return max(j.MaxRetries, 1)
	}
	return max(j.MaxRetries-j.Attempt, 1)
}

// expireAfter returns the time that the job has left. It returns none for a dead job, because a dead job no
// longer expires.
func (j *job) expireAfter(now time.Time) (api.Duration, error) {
	if j.ExpireAt == nil || j.State == dead {
		return "", nil
	}
	left := j.ExpireAt.Sub(now)
	if left <= 0 {
		return "", errExpired
	}
	return api.DurationOf(left), nil
}

// tags returns the job's tags and the tag with its old id. 0.3 accepted any JSON as a tag's value, but this
// version accepts only text, so tags writes other values as their JSON.
func (j *job) tags() (api.Strings, error) {
	all := api.Strings{IDTag: j.ID}
	if present(j.Tags) == nil {
		return all, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(j.Tags, &values); err != nil {
		return nil, fmt.Errorf("its tags are not an object: %w", err)
	}
	for name, value := range values {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		all[name] = text
	}
	return all, nil
}

// request returns an agent's limits, less the use of its iterations so far.
func (a *agent) request() (*api.Agent, error) {
	if a == nil || a.MaxIterations == 0 && a.MaxCostUSD == "" && a.IterationTimeout == "" {
		return nil, nil
	}
	req := &api.Agent{IterationTimeout: api.Duration(a.IterationTimeout)}
	if a.MaxIterations > 0 {
		req.MaxIterations = max(a.MaxIterations-a.Iteration, 1)
	}
	limit, err := dollars(a.MaxCostUSD)
	if err != nil {
		return nil, fmt.Errorf("its max_cost_usd: %w", err)
	}
	spent, err := dollars(a.TotalCostUSD)
	if err != nil {
		return nil, fmt.Errorf("its total_cost_usd: %w", err)
	}
	if limit > 0 {
		req.MaxCostUSD = max(limit-spent, 1) // one nano-dollar stands for none left, because 0 would be no limit
	}
	return req, nil
}

// chain returns the rest of the job's chain: the steps from its own on.
func (j *job) chain() (*api.Chain, error) {
	if present(j.ChainConfig) == nil {
		return nil, nil
	}
	var c struct {
		Steps []struct {
			Queue   string          `json:"queue"`
			Payload json.RawMessage `json:"payload"`
		} `json:"steps"`
		OnFailure json.RawMessage `json:"on_failure"`
		OnExit    *api.ChainStep  `json:"on_exit"`
	}
	if err := json.Unmarshal(j.ChainConfig, &c); err != nil {
		return nil, fmt.Errorf("its chain_config: %w", err)
	}
	step := 0
	if j.ChainStep != nil {
		step = *j.ChainStep
	}
	if step < 0 || step >= len(c.Steps) { // a job of on_failure or on_exit: nothing follows it
		return nil, nil
	}
	left := &api.Chain{OnFailure: present(c.OnFailure), OnExit: c.OnExit}
	for i, s := range c.Steps[step:] {
		next := api.ChainStep{Queue: s.Queue, Payload: present(s.Payload)}
		if i == 0 {
			next = api.ChainStep{Queue: j.Queue} // its payload is the job's own
		}
		left.Steps = append(left.Steps, next)
	}
	return left, nil
}

// lastError returns the cause of a job's death, cut to the length of a rejection's reason.
func (j *job) lastError(most int) string {
	reason := "dead on Corvo 0.3"
	if n := len(j.Errors); n > 0 {
		reason += ": " + j.Errors[n-1].Error
	}
	return text.Head(reason, most)
}

// priority returns the word for a priority. 0.3 treated every number above 1 as normal.
func priority(p int) api.Priority {
	switch p {
	case 0:
		return api.Critical
	case 1:
		return api.High
	}
	return api.Normal
}

func milliseconds(ms int64) api.Duration {
	if ms <= 0 {
		return ""
	}
	return api.Duration(strconv.FormatInt(ms, 10) + "ms")
}

// present returns a document, or nil if it is absent or null.
func present(document json.RawMessage) json.RawMessage {
	if d := bytes.TrimSpace(document); len(d) > 0 && !bytes.Equal(d, []byte("null")) {
		return d
	}
	return nil
}

// dollars parses an amount of 0.3, which kept floats and wrote 0.1+0.2 with 17 digits.
func dollars(n json.Number) (money.Nano, error) {
	if n == "" {
		return 0, nil
	}
	return money.Round([]byte(n))
}
