package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
)

// WebhookParam is an enqueue option that POST /webhooks/{queue} takes in its query, because the body is the
// payload.
type WebhookParam struct {
	Name     string
	Doc      string
	Repeated bool // it may be given several times
	set      func(r *api.EnqueueRequest, value string) error
}

// WebhookParams are all parameters of the route. Each means the same as the field of its name in POST
// /enqueue.
var WebhookParams = []WebhookParam{
	{"priority", "priority: critical, high, normal, or 0, 1, 2", false, func(r *api.EnqueueRequest, v string) error { return setPriority(&r.Priority, v) }},
	{"unique_key", "key that only one job of the queue holds at a time", false, func(r *api.EnqueueRequest, v string) error { r.UniqueKey = v; return nil }},
	{"unique_period", "longest time a job holds its unique key, in seconds", false, func(r *api.EnqueueRequest, v string) error { return setInt(&r.UniquePeriod, v) }},
	{"unique_until", "end of the unique key: settled or period", false, func(r *api.EnqueueRequest, v string) error { r.UniqueUntil = v; return nil }},
	{"max_retries", "limit on attempts, including the first", false, func(r *api.EnqueueRequest, v string) error { return setNewInt(&r.MaxRetries, v) }},
	{"retry_backoff", "growth of the retry delay: none, fixed, linear or exponential", false, func(r *api.EnqueueRequest, v string) error { r.RetryBackoff = v; return nil }},
	{"retry_base_delay", "delay before the first retry, such as 5s", false, func(r *api.EnqueueRequest, v string) error { r.RetryBaseDelay = api.Duration(v); return nil }},
	{"retry_max_delay", "longest delay before a retry", false, func(r *api.EnqueueRequest, v string) error { r.RetryMaxDelay = api.Duration(v); return nil }},
	{"retry_jitter_percent", "random share of a delay in percent, 0 to 100", false, func(r *api.EnqueueRequest, v string) error { return setNewInt(&r.RetryJitterPercent, v) }},
	{"scheduled_at", "earliest start, RFC 3339", false, func(r *api.EnqueueRequest, v string) error { r.ScheduledAt = api.Time(v); return nil }},
	{"expire_after", "lifetime of the job, after which it is dead, such as 1h", false, func(r *api.EnqueueRequest, v string) error { r.ExpireAfter = api.Duration(v); return nil }},
	{"debounce_key", "key by which a later enqueue updates the waiting job and restarts its delay", false, func(r *api.EnqueueRequest, v string) error { r.DebounceKey = v; return nil }},
	{"debounce", "delay of a job with a debounce_key, such as 30s", false, func(r *api.EnqueueRequest, v string) error { r.Debounce = api.Duration(v); return nil }},
	{"parent_id", "id of the parent job", false, func(r *api.EnqueueRequest, v string) error { r.ParentID = v; return nil }},
	{"fairness_key", "key whose share of the queue the job counts against, such as a tenant", false, func(r *api.EnqueueRequest, v string) error { r.FairnessKey = v; return nil }},
	{"fairness_weight", "weight of the fairness key, 1 to 1000", false, func(r *api.EnqueueRequest, v string) error { return setInt(&r.FairnessWeight, v) }},
	{"provider", "model provider whose limits apply", false, func(r *api.EnqueueRequest, v string) error { r.Provider = v; return nil }},
	{"model", "model that the job uses", false, func(r *api.EnqueueRequest, v string) error { r.Model = v; return nil }},
	{"cost_estimate_usd", "expected cost of an attempt in US dollars, such as 0.25", false, setCostEstimate},
	{"depends_on", "id of a job to wait for; may be repeated", true, func(r *api.EnqueueRequest, v string) error { r.DependsOn = append(r.DependsOn, v); return nil }},
	{"dependency_policy", "action when a job of depends_on does not succeed: fail, hold or ignore", false, func(r *api.EnqueueRequest, v string) error { r.DependencyPolicy = v; return nil }},
	{"tags", "tag, as name:value; may be repeated", true, func(r *api.EnqueueRequest, v string) error { return addTag(r, v) }},
}

// FromWebhook converts a webhook for a queue to an enqueue. It refuses unknown parameters.
func FromWebhook(f *Faults, queue, query string, body []byte) *EnqueueBody {
	b := &EnqueueBody{EnqueueRequest: api.EnqueueRequest{Queue: queue, Payload: webhookPayload(f, body)}}
	values, err := url.ParseQuery(query)
	if err != nil {
		// The parameters that could be read are ignored, because the others may be the ones that matter.
		f.Invalid("query", "cannot be read: %v", err)
		return b
	}
	for name, given := range values {
		i := slices.IndexFunc(WebhookParams, func(p WebhookParam) bool { return p.Name == name })
		if i < 0 {
			f.Invalid(text.Head(name, text.MaxQuoted), "is not a parameter that a webhook takes")
			continue
		}
		WebhookParams[i].take(f, &b.EnqueueRequest, given)
	}
	return b
}

// webhookPayload converts a webhook's body to a payload. JSON stays as it is, without the white space around
// it. An empty body gives no payload. Other text becomes a JSON string, because many senders post forms, log
// lines or XML. A text that nests brackets more than job.MaxNesting levels deep may be refused even if it is
// not JSON. The content type is ignored, because many senders set it wrong. Text must be UTF-8, because any
// other encoding would be a guess.
func webhookPayload(f *Faults, body []byte) json.RawMessage {
	trimmed := bytes.Trim(body, " \t\r\n")
	if len(trimmed) == 0 {
		return nil
	}
	if !utf8.Valid(body) {
		f.Invalid("body", "is not UTF-8; send JSON or text in UTF-8, and bytes of another kind as base64")
		return nil
	}
	if err := text.CheckNesting(trimmed, job.MaxNesting); err != nil {
		f.Invalid("body", "is %v", err)
		return nil
	}
	if json.Valid(trimmed) {
		return trimmed
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(body)); err != nil {
		f.Invalid("body", "cannot be a JSON string: %v", err)
	}
	return bytes.TrimRight(quoted.Bytes(), "\n")
}

// take sets the parameter. An empty value counts as absent.
func (p *WebhookParam) take(f *Faults, r *api.EnqueueRequest, given []string) {
	if len(given) > 1 && !p.Repeated {
		f.Invalid(p.Name, "is given %d times; give it once", len(given))
		return
	}
	for _, value := range given {
		if value == "" {
			continue
		}
		if err := p.set(r, value); err != nil {
			f.Invalid(p.Name, "%v", err)
		}
	}
}

// setPriority takes a word or a number, as a body does. Other values stay text, which the conversion of the
// enqueue refuses.
func setPriority(p *api.Priority, value string) error {
	if n, err := strconv.Atoi(value); err == nil && strconv.Itoa(n) == value {
		return p.UnmarshalJSON([]byte(value))
	}
	*p = api.Priority(value)
	return nil
}

func setInt(n *int, value string) error {
	parsed, err := strconv.Atoi(value)
	if err != nil {
		return fmt.Errorf("%s is not a whole number", text.Quote(value))
	}
	*n = parsed
	return nil
}

func setNewInt(n **int, value string) error {
	*n = new(int)
	return setInt(*n, value)
}

func setCostEstimate(r *api.EnqueueRequest, value string) error {
	cost, err := money.Round([]byte(value))
	if err != nil {
		return err
	}
	r.CostEstimateUSD = new(money.Reported(cost))
	return nil
}

func addTag(r *api.EnqueueRequest, value string) error {
	name, given, ok := strings.Cut(value, ":")
	if !ok {
		return fmt.Errorf("%s is not a tag: write it like name:value", text.Quote(value))
	}
	if _, twice := r.Tags[name]; twice {
		return errors.New("has " + text.Quote(name) + " twice")
	}
	if r.Tags == nil {
		r.Tags = api.Strings{}
	}
	r.Tags[name] = given
	return nil
}
