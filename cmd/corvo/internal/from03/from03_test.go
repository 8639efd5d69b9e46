package from03_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/cmd/corvo/internal/from03"
	"github.com/corvo/corvo/cmd/corvo/internal/from03/from03test"
	"github.com/corvo/corvo/dataplane"
)

// startNode runs a real node and returns its URL and its first key.
func startNode(t *testing.T) (endpoint, key string) {
	t.Helper()
	node, err := dataplane.Open(t.Context(), dataplane.Config{DataDir: t.TempDir(), NodeID: "n1", Version: "v1.2.3", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(node.Handler())
	t.Cleanup(func() {
		node.Drain()
		server.Close()
		if err := node.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return server.URL, node.FirstKey
}

// startTarget runs a real node and returns a client of it.
func startTarget(t *testing.T) *client.Client {
	t.Helper()
	endpoint, key := startNode(t)
	c, err := client.New(endpoint, key, client.WithKeyedWrites())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func copyFrom(t *testing.T, o *from03test.Original, cfg from03.Config) *from03.Report {
	t.Helper()
	source, err := from03.NewSource(o.URL, from03test.Key)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Source = source
	report, err := from03.Copy(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// jobsHere returns the copied jobs by their old ids.
func jobsHere(t *testing.T, c *client.Client) map[string]api.Job {
	t.Helper()
	here := map[string]api.Job{}
	err := c.SearchAll(t.Context(), api.SearchRequest{}, client.Read{Strong: true}, 0, func(j *api.Job) error {
		full, err := c.Job(t.Context(), j.ID, client.Read{})
		here[j.Tags[from03.IDTag]] = full
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return here
}

// The target has every unfinished job in its state, with everything that a request can carry.
func TestJobsAreCopied(t *testing.T) {
	t.Parallel()
	o, c := from03test.Start(t), startTarget(t)
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	plain := o.Add("pending", "mails", map[string]any{
		"payload": json.RawMessage(`{"to":"a@example.com","n":1.50}`), "priority": 0, "unique_key": "welcome-a", "max_retries": 5,
		"retry_backoff": "linear", "retry_base_delay_ms": 1500, "tags": map[string]any{"tenant": "acme", "n": 7}, "checkpoint": map[string]any{"at": 3},
	})
	later := o.Add("scheduled", "mails", map[string]any{"scheduled_at": tomorrow})
	again := o.Add("retrying", "mails", map[string]any{"scheduled_at": tomorrow, "attempt": 2, "max_retries": 5})
	running := o.Add("active", "mails", map[string]any{"attempt": 1})
	waits := o.Add("held", "agents", map[string]any{
		"hold_reason": "too dear", "agent": map[string]any{"max_iterations": 10, "iteration": 4, "max_cost_usd": 2, "total_cost_usd": 0.30000000000000004},
	})
	failed := o.Add("dead", "agents", map[string]any{"attempt": 3, "errors": []any{
		map[string]any{"attempt": 1, "error": "first"}, map[string]any{"attempt": 3, "error": "no such mailbox"},
	}})
	step := o.Add("pending", "b", map[string]any{
		"chain_id": "chain_1", "chain_step": 1, "payload": json.RawMessage(`{"previous":{"job_id":"job_0"}}`),
		"chain_config": map[string]any{"steps": []any{map[string]any{"queue": "a"}, map[string]any{"queue": "b"}, map[string]any{"queue": "c"}}, "on_failure": map[string]any{"queue": "alarm"}},
	})
	child := o.Add("pending", "mails", map[string]any{"parent_id": plain})
	o.Add("completed", "mails", nil)
	o.Add("cancelled", "mails", nil)

	report := copyFrom(t, o, from03.Config{Target: c})
	if diff := cmp.Diff(from03.Jobs{Found: 8, Copied: 8, Finished: 2}, report.Jobs); diff != "" {
		t.Errorf("jobs of the report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]from03.Queue{{Name: "agents", There: 2, Here: 2}, {Name: "b", There: 1, Here: 1}, {Name: "mails", There: 5, Here: 5}}, report.Queues); diff != "" {
		t.Errorf("queues of the report (-want +got):\n%s", diff)
	}
	if !report.Complete() {
		t.Error("the report says that something is missing")
	}

	here := jobsHere(t, c)
	get := func(old string) api.Job { return here[old] }
	for name, state := range map[string]string{
		plain: "pending", later: "scheduled", again: "scheduled", running: "pending",
		waits: "held", failed: "dead", step: "pending", child: "pending",
	} {
		if got := here[name].State; got != state {
			t.Errorf("job %s is %q; want %q", name, got, state)
		}
	}
	p := get(plain)
	if diff := cmp.Diff(api.Strings{"tenant": "acme", "n": "7", from03.IDTag: plain}, p.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if got := string(p.Payload); got != `{"to":"a@example.com","n":1.50}` {
		t.Errorf("payload %s", got)
	}
	if got := fmt.Sprintf("%d %d %s %d %s %s", p.Priority, p.MaxRetries, p.RetryBackoff, p.RetryBaseDelayMs, *p.UniqueKey, p.Checkpoint); got != `0 5 linear 1500 welcome-a {"at":3}` {
		t.Errorf("options %s", got)
	}
	if got := get(later).ScheduledAt; got == nil || *got != api.TimeOf(tomorrow) {
		t.Errorf("scheduled for %v; want %v", got, tomorrow)
	}
	if got := get(again).MaxRetries; got != 3 {
		t.Errorf("a job with 2 of 5 attempts behind it has %d left", got)
	}
	if w := get(waits); w.HoldReason == nil || *w.HoldReason != "too dear" {
		t.Errorf("held because of %v", w.HoldReason)
	}
	if a := get(waits).Agent; *a.MaxIterations != 6 || *a.MaxCostUSD != money.Nano(1_700_000_000) {
		t.Errorf("the agent has %d iterations and %s USD left", *a.MaxIterations, *a.MaxCostUSD)
	}
	if got := get(failed).LastError; got == nil || !strings.Contains(*got, "no such mailbox") {
		t.Errorf("dead because of %v", got)
	}
	if got := get(child).ParentID; got == nil || *got != p.ID {
		t.Errorf("the parent is %v; want %s", got, p.ID)
	}
}

// A worker can fetch a held job after its approval, although the job was scheduled years ahead until it was
// held. A copied chain continues with its next step.
func TestCopiedJobsGoOn(t *testing.T) {
	t.Parallel()
	o, c := from03test.Start(t), startTarget(t)
	waits := o.Add("held", "agents", nil)
	o.Add("pending", "b", map[string]any{"chain_id": "chain_1", "chain_step": 1, "chain_config": map[string]any{
		"steps": []any{map[string]any{"queue": "a"}, map[string]any{"queue": "b"}, map[string]any{"queue": "c"}},
	}})
	copyFrom(t, o, from03.Config{Target: c})

	approved := jobsHere(t, c)[waits].ID
	if err := c.Approve(t.Context(), approved); err != nil {
		t.Fatal(err)
	}
	if got := fetch(t, c, "agents"); got.JobID != approved {
		t.Errorf("fetched %s; want %s", got.JobID, approved)
	}
	step := fetch(t, c, "b")
	if err := c.Ack(t.Context(), step.JobID, api.AckRequest{LeaseToken: step.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if next := fetch(t, c, "c"); next.Queue != "c" {
		t.Errorf("the next step is in %s", next.Queue)
	}
}

func fetch(t *testing.T, c *client.Client, queue string) *api.FetchedJob {
	t.Helper()
	j, err := c.Fetch(t.Context(), api.FetchRequest{Queues: []string{queue}, WorkerID: "w"})
	if err != nil || j == nil {
		t.Fatalf("no job in %s: %v", queue, err)
	}
	return j
}

// A repeated run copies the jobs that are new since the last run, and none twice.
func TestRunsAreRepeated(t *testing.T) {
	t.Parallel()
	o, c := from03test.Start(t), startTarget(t)
	for i := range 450 { // more than two lots and two pages
		o.Add([]string{"pending", "held", "dead"}[i%3], "q", nil)
	}
	first := copyFrom(t, o, from03.Config{Target: c})
	if first.Jobs.Copied != 450 || !first.Complete() {
		t.Fatalf("%+v", first)
	}
	o.Add("pending", "q", nil)
	second := copyFrom(t, o, from03.Config{Target: c})
	if diff := cmp.Diff(from03.Jobs{Found: 451, Copied: 1, Earlier: 450}, second.Jobs); diff != "" || !second.Complete() {
		t.Errorf("(-want +got):\n%s%+v", diff, second.Queues)
	}
	if n := len(jobsHere(t, c)); n != 451 {
		t.Errorf("%d jobs are here", n)
	}
	// Workers fetch the jobs in the order in which they were created on the original.
	most := 200
	got, err := c.FetchBatch(t.Context(), api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"q"}, WorkerID: "w"}, Count: &most})
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, j := range got {
		if j.Tags[from03.IDTag] < last {
			t.Fatalf("%s comes after %s", j.Tags[from03.IDTag], last)
		}
		last = j.Tags[from03.IDTag]
	}
}

// The report names the jobs that the target refuses, and the run still copies the others.
func TestRefusedJobsAreNamed(t *testing.T) {
	t.Parallel()
	o, c := from03test.Start(t), startTarget(t)
	o.Add("pending", "q", nil)
	bad := o.Add("pending", "a queue/with blanks", nil)
	torn := o.Add("pending", "q", map[string]any{"tags": "no object"})
	o.Add("pending", "q", map[string]any{"expire_at": time.Now().Add(-time.Hour)})
	part := o.Add("pending", "q", map[string]any{"batch_id": "batch_1", "parent_id": "job_lost"})
	o.Add("pending", "q", map[string]any{"unique_key": "k"})
	twin := o.Add("pending", "q", map[string]any{"unique_key": "k"})

	report := copyFrom(t, o, from03.Config{Target: c})
	if diff := cmp.Diff(from03.Jobs{Found: 7, Copied: 3, Expired: 1, Refused: 3, Shortened: 1}, report.Jobs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if report.Complete() {
		t.Error("the report says that nothing is missing")
	}
	reasons := map[string]string{}
	for _, p := range report.Problems {
		reasons[p.JobID] = p.Reason
	}
	for id, want := range map[string]string{
		bad: "queue", torn: "tags are not an object", part: "its batch batch_1, its parent job_lost", twin: `unique key "k"`,
	} {
		if got := reasons[id]; !strings.Contains(got, want) {
			t.Errorf("%s: %q does not name %q", id, got, want)
		}
	}
}

// A run copies each setting once and translates it where the versions differ.
func TestSettingsAreCopied(t *testing.T) {
	t.Parallel()
	o, c := from03test.Start(t), startTarget(t)
	o.SetList("providers", map[string]any{"name": "acme", "rpm_limit": 60})
	o.SetList("queues", map[string]any{"name": "slow", "paused": true, "max_concurrency": 3, "rate_limit": 10, "rate_window_ms": 60000, "provider": "acme"})
	o.SetList("budgets",
		map[string]any{"scope": "global", "target": "*", "daily_usd": 50, "per_job_usd": 0.30000000000000004, "on_exceed": "hold"},
		map[string]any{"scope": "tag", "target": "tenant:acme", "per_job_usd": 2, "on_exceed": "alert_only"})
	o.SetList("schedules", map[string]any{"name": "nightly", "queue": "slow", "cron": "0 3 * * *", "timezone": "Europe/Zurich", "payload": map[string]any{"a": 1}, "max_retries": 7})
	o.SetList("webhooks", map[string]any{"url": "https://hooks.example.com/corvo", "events": []any{"completed"}, "secret": "a-secret-of-24-characters", "enabled": true, "retry_limit": 5})
	o.SetList("auth/keys",
		map[string]any{"name": "mailer", "namespace": "default", "role": "worker", "queue_scope": "mails.*", "enabled": true, "key_hash": "00"},
		map[string]any{"name": "old", "namespace": "default", "role": "admin", "enabled": false},
		map[string]any{"name": "other", "namespace": "acme", "role": "admin", "enabled": true})

	var secrets bytes.Buffer
	report := copyFrom(t, o, from03.Config{Target: c, Keys: &secrets})
	want := []from03.Setting{
		{Kind: "provider", Name: "acme", Outcome: "copied"},
		{Kind: "queue", Name: "slow", Outcome: "copied"},
		{Kind: "budget", Name: "global/*", Outcome: "copied"},
		{Kind: "budget", Name: "tag/tenant:acme", Outcome: "copied"},
		{Kind: "schedule", Name: "nightly", Outcome: "copied"},
		{Kind: "webhook", Name: "https://hooks.example.com/corvo", Outcome: "copied"},
		{Kind: "key", Name: "mailer", Outcome: "copied"},
		{Kind: "key", Name: "old", Outcome: "left", Reason: "it is disabled"},
		{Kind: "key", Name: "other", Outcome: "left", Reason: "it is a key of namespace acme"},
	}
	if diff := cmp.Diff(want, report.Settings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	q, err := c.Queue(t.Context(), "slow", client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	slow := api.Queue{Paused: q.Paused, MaxConcurrency: q.MaxConcurrency, RateLimit: q.RateLimit, RateWindowMs: q.RateWindowMs, Provider: q.Provider}
	if diff := cmp.Diff(api.Queue{Paused: true, MaxConcurrency: new(3), RateLimit: new(10), RateWindowMs: new(int64(60000)), Provider: new("acme")}, slow); diff != "" {
		t.Errorf("the queue (-want +got):\n%s", diff)
	}
	b, err := c.Budget(t.Context(), "namespace", "default", client.Read{})
	if err != nil || b.DailyUSD.String() != "50" || b.PerJobUSD.String() != "0.3" {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := c.Budget(t.Context(), "tag", "tenant=acme", client.Read{}); err != nil || b.OnExceed != "alert_only" {
		t.Errorf("%+v, %v", b, err)
	}
	name, secret, ok := strings.Cut(strings.TrimSpace(secrets.String()), "\t")
	if !ok || name != "mailer" || !strings.HasPrefix(secret, "cv_") {
		t.Errorf("the file of secrets holds %q", secrets.String())
	}

	again := copyFrom(t, o, from03.Config{Target: c, Keys: &secrets})
	once := []string{"schedule", "webhook", "key"} // a second copy would be another one
	for _, s := range again.Settings {
		if s.Outcome == from03.Refused || s.Outcome == from03.Copied && slices.Contains(once, s.Kind) {
			t.Errorf("a repeated run: %+v", s)
		}
	}
	if all, err := c.Webhooks(t.Context(), client.Read{}); err != nil || len(all) != 1 {
		t.Errorf("%d webhooks, %v", len(all), err)
	}
}

// A dry run reports all that it would copy and writes nothing.
func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	o, c := from03test.Start(t), startTarget(t)
	o.Add("pending", "q", nil)
	o.SetList("schedules", map[string]any{"name": "nightly", "queue": "q", "cron": "0 3 * * *"})
	report := copyFrom(t, o, from03.Config{Target: c, DryRun: true})
	if report.Jobs.Copied != 1 || len(report.Settings) != 1 {
		t.Errorf("%+v", report)
	}
	if here := jobsHere(t, c); len(here) != 0 {
		t.Errorf("%d jobs are here", len(here))
	}
	if all, err := c.Schedules(t.Context(), client.Read{}); err != nil || len(all) != 0 {
		t.Errorf("%d schedules, %v", len(all), err)
	}
}

// A run against a wrong server, or with a wrong key, copies nothing and returns the reason.
func TestSourceIsChecked(t *testing.T) {
	t.Parallel()
	o, c := from03test.Start(t), startTarget(t)
	source, err := from03.NewSource(o.URL, "wrong")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from03.Copy(t.Context(), from03.Config{Source: source, Target: c}); err == nil || !strings.Contains(err.Error(), "invalid API key") {
		t.Error(err)
	}
	endpoint, key := startNode(t)
	if source, err = from03.NewSource(endpoint, key); err != nil {
		t.Fatal(err)
	}
	if _, err := from03.Copy(t.Context(), from03.Config{Source: source, Target: c}); err == nil || !strings.Contains(err.Error(), ", not 0.3") {
		t.Error(err)
	}
	if _, err := from03.NewSource("old-host:8080", ""); err == nil {
		t.Error("a URL without a scheme is taken")
	}
}
