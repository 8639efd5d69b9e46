package from03

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// listing reads a list of the original. It returns an empty list if the original lacks the route, because its
// routes depend on its release and licence.
func listing[T any](ctx context.Context, s *Source, path string) ([]T, error) {
	var all []T
	err := s.get(ctx, path, &all)
	if errors.Is(err, errAbsent) {
		return nil, nil
	}
	return all, err
}

// set copies one setting, except in a dry run. Refusals go into the report; only another error ends the run.
func (r *run) set(kind, name string, write func() error) error {
	var err error
	if !r.DryRun {
		err = write()
	}
	if err != nil && !isRefusal(err) {
		return err
	}
	r.report.setting(kind, name, err)
	return nil
}

type provider struct {
	Name           string `json:"name"`
	RPMLimit       int64  `json:"rpm_limit"`
	InputTPMLimit  int64  `json:"input_tpm_limit"`
	OutputTPMLimit int64  `json:"output_tpm_limit"`
}

func (r *run) providers(ctx context.Context) error {
	all, err := listing[provider](ctx, r.Source, "/api/v1/providers")
	if err != nil {
		return err
	}
	for _, p := range all {
		err := r.set("provider", p.Name, func() error {
			_, err := r.Target.PutProvider(ctx, p.Name, api.ProviderRequest{
				Name: p.Name, RPMLimit: p.RPMLimit, InputTPMLimit: p.InputTPMLimit, OutputTPMLimit: p.OutputTPMLimit,
			}, 0)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type queue struct {
	Name           string `json:"name"`
	Paused         bool   `json:"paused"`
	MaxConcurrency *int   `json:"max_concurrency"`
	RateLimit      *int   `json:"rate_limit"`
	RateWindowMs   *int64 `json:"rate_window_ms"`
	Provider       string `json:"provider"`
}

// plain reports whether the queue has no settings. Its first job creates such a queue.
func (q *queue) plain() bool {
	return !q.Paused && q.MaxConcurrency == nil && q.RateLimit == nil && q.Provider == ""
}

func (r *run) queues(ctx context.Context) error {
	all, err := listing[queue](ctx, r.Source, "/api/v1/queues")
	if err != nil {
		return err
	}
	for _, q := range all {
		if q.plain() {
			continue
		}
		err := r.set("queue", q.Name, func() error {
			_, err := r.Target.PutQueue(ctx, q.Name, api.PutQueueRequest{
				Paused: &q.Paused, MaxConcurrency: q.MaxConcurrency,
				RateLimit: q.RateLimit, RateWindowMs: q.RateWindowMs, Provider: q.Provider,
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type budget struct {
	Scope     string      `json:"scope"`
	Target    string      `json:"target"`
	DailyUSD  json.Number `json:"daily_usd"`
	PerJobUSD json.Number `json:"per_job_usd"`
	OnExceed  string      `json:"on_exceed"`
}

// request returns the budget in this version's terms: 0.3's global budget is the namespace's, and a tag is
// written with "=" where 0.3 also took ":".
func (b *budget) request() (req api.BudgetRequest, err error) {
	req = api.BudgetRequest{Scope: b.Scope, Target: b.Target, OnExceed: b.OnExceed}
	switch b.Scope {
	case "global":
		req.Scope, req.Target = "namespace", "default"
	case "tag":
		if name, value, ok := strings.Cut(b.Target, ":"); ok && !strings.Contains(name, "=") {
			req.Target = name + "=" + value
		}
	}
	daily, err := dollars(b.DailyUSD)
	if err != nil {
		return req, fmt.Errorf("daily_usd: %w", err)
	}
	perJob, err := dollars(b.PerJobUSD)
	if err != nil {
		return req, fmt.Errorf("per_job_usd: %w", err)
	}
	if b.DailyUSD != "" {
		req.DailyUSD = &daily
	}
	if b.PerJobUSD != "" {
		req.PerJobUSD = &perJob
	}
	return req, nil
}

func (r *run) budgets(ctx context.Context) error {
	all, err := listing[budget](ctx, r.Source, "/api/v1/budgets")
	if err != nil {
		return err
	}
	for _, b := range all {
		name := b.Scope + "/" + b.Target
		req, err := b.request()
		if err != nil {
			r.report.setting("budget", name, err)
			continue
		}
		err = r.set("budget", name, func() error {
			_, err := r.Target.PutBudget(ctx, req.Scope, req.Target, req, 0)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type schedule struct {
	Name       string          `json:"name"`
	Queue      string          `json:"queue"`
	Cron       string          `json:"cron"`
	Timezone   string          `json:"timezone"`
	Payload    json.RawMessage `json:"payload"`
	UniqueKey  string          `json:"unique_key"`
	MaxRetries int             `json:"max_retries"`
}

func (s *schedule) request() api.ScheduleRequest {
	req := api.ScheduleRequest{
		Name: s.Name, Queue: s.Queue, Cron: s.Cron, Timezone: s.Timezone, Payload: present(s.Payload), UniqueKey: s.UniqueKey,
	}
	if s.MaxRetries > 0 {
		req.MaxRetries = &s.MaxRetries
	}
	return req
}

func (r *run) schedules(ctx context.Context) error {
	all, err := listing[schedule](ctx, r.Source, "/api/v1/schedules")
	if err != nil || len(all) == 0 {
		return err
	}
	have, err := r.Target.Schedules(ctx, client.Read{})
	if err != nil {
		return err
	}
	for _, s := range all {
		if slices.ContainsFunc(have, func(h api.Schedule) bool { return h.Name == s.Name }) {
			r.report.leave("schedule", s.Name, Exists, "a schedule of this name is here already")
			continue
		}
		err := r.set("schedule", s.Name, func() error {
			_, err := r.Target.CreateSchedule(ctx, s.request())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type webhook struct {
	URL        string   `json:"url"`
	Events     []string `json:"events"`
	Secret     string   `json:"secret"` // 0.3 shows it to administrators
	Enabled    bool     `json:"enabled"`
	RetryLimit int      `json:"retry_limit"`
}

func (r *run) webhooks(ctx context.Context) error {
	all, err := listing[webhook](ctx, r.Source, "/api/v1/webhooks")
	if err != nil || len(all) == 0 {
		return err
	}
	have, err := r.Target.Webhooks(ctx, client.Read{})
	if err != nil {
		return err
	}
	for _, w := range all {
		if slices.ContainsFunc(have, func(h api.Webhook) bool { return h.URL == w.URL && sameEvents(h.Events, w.Events) }) {
			r.report.leave("webhook", w.URL, Exists, "a webhook with this URL and these events is here already")
			continue
		}
		err := r.set("webhook", w.URL, func() error {
			_, err := r.Target.CreateWebhook(ctx, api.WebhookRequest{
				URL: w.URL, Events: w.Events, Secret: w.Secret, Enabled: &w.Enabled, RetryLimit: &w.RetryLimit,
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sameEvents reports whether two lists name the same events.
func sameEvents(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

type key struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Role       string `json:"role"`
	QueueScope string `json:"queue_scope"`
	Enabled    bool   `json:"enabled"`
	ExpiresAt  string `json:"expires_at"`
}

// left returns the reason for not creating a key anew, or "".
func (k *key) left(now time.Time) string {
	expires, err := time.Parse(time.RFC3339Nano, k.ExpiresAt)
	switch {
	case k.Namespace != "" && k.Namespace != "default":
		return "it is a key of namespace " + k.Namespace
	case !k.Enabled:
		return "it is disabled"
	case k.ExpiresAt != "" && err == nil && !expires.After(now):
		return "it has expired"
	}
	return ""
}

func (k *key) request() api.CreateKeyRequest {
	req := api.CreateKeyRequest{Name: k.Name, Roles: []string{k.Role}, ExpiresAt: api.Time(k.ExpiresAt)}
	for glob := range strings.SplitSeq(k.QueueScope, ",") {
		if glob = strings.TrimSpace(glob); glob != "" {
			req.QueueScope = append(req.QueueScope, glob)
		}
	}
	return req
}

// keys creates a new key for each key of the original, because the original keeps only hashes of the old
// secrets and their form differs. It writes each secret as soon as it is known.
func (r *run) keys(ctx context.Context) error {
	all, err := listing[key](ctx, r.Source, "/api/v1/auth/keys")
	if err != nil || len(all) == 0 {
		return err
	}
	have, err := r.Target.ListKeys(ctx)
	if err != nil {
		return err
	}
	for _, k := range all {
		why := k.left(time.Now())
		if r.Keys == nil && why == "" {
			why = "old secrets do not work here; say where new ones go to have it made anew"
		}
		switch {
		case slices.ContainsFunc(have, func(h api.Key) bool { return h.Name == k.Name }):
			r.report.leave("key", k.Name, Exists, "a key of this name is here already")
			continue
		case why != "":
			r.report.leave("key", k.Name, Left, why)
			continue
		}
		err := r.set("key", k.Name, func() error {
			made, err := r.Target.CreateKey(ctx, k.request())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(r.Keys, "%s\t%s\n", k.Name, made.APIKey)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
