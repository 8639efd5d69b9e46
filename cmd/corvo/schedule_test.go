package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// TestScheduleCommands takes a schedule through its life by the command line at a real node.
func TestScheduleCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	key := adminKey(t, dir)
	c := newClient(t, p.endpoint, key)
	ask := func(args ...string) answer {
		t.Helper()
		return corvo(t, []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + key}, append([]string{"schedules"}, args...)...)
	}
	do := func(args ...string) string {
		t.Helper()
		a := ask(args...)
		if a.code != 0 || a.stderr != "" {
			t.Fatalf("%q: %+v", args, a)
		}
		return a.stdout
	}
	read := func(into any, args ...string) {
		t.Helper()
		if err := json.Unmarshal([]byte(do(append(args, "--output", "json")...)), into); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}

	var made api.Schedule
	read(&made, "create", "daily report", "--queue", "reports", "--cron", "0 9 * * mon-fri", "--timezone", "Europe/Berlin", "--payload", `{"kind":"daily"}`,
		"--unique-key", "daily", "--max-retries", "5", "--priority", "high", "--missed", "skip", "--jitter", "30s", "--tag", "a=b,c=d", "--header", "x=y")
	now, err := c.Schedule(t.Context(), made.ID, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	want := api.Schedule{
		ID: made.ID, Name: "daily report", Queue: "reports", Cron: "0 9 * * mon-fri", Timezone: "Europe/Berlin", Payload: json.RawMessage(`{"kind":"daily"}`),
		UniqueKey: new("daily"), MaxRetries: 5, Priority: 1, Missed: "skip", Jitter: "30s",
		Tags: api.Strings{"a": "b", "c": "d"}, Headers: api.Strings{"x": "y"}, Version: 1,
	}
	if diff := cmp.Diff(want, now, cmpopts.IgnoreFields(want, "NextRun", "CreatedAt")); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if now.NextRun == nil || now.CreatedAt == "" {
		t.Errorf("made at %q, next run %v", now.CreatedAt, now.NextRun)
	}
	var all []api.Schedule
	if read(&all, "list"); len(all) != 1 || all[0].ID != made.ID {
		t.Errorf("listed %+v", all)
	}
	var next []api.Time
	if read(&next, "next", made.ID, "-n", "3"); len(next) != 3 || next[0] != *now.NextRun {
		t.Errorf("next runs %v, want %s first", next, *now.NextRun)
	}
	if out := do("pause", "daily report"); out != "paused\n" {
		t.Errorf("pause: %q", out)
	}
	if out := do("list"); !strings.Contains(out, "paused") || !strings.Contains(out, made.ID) {
		t.Errorf("listed:\n%s", out)
	}
	job := strings.TrimSpace(do("run", "daily report"))
	if got, err := c.Job(t.Context(), job, client.Read{}); err != nil || got.Queue != "reports" {
		t.Errorf("the run's job %q: %+v, %v", job, got, err)
	}
	if out := do("resume", made.ID); out != "resumed\n" {
		t.Errorf("resume: %q", out)
	}
	if out := do("get", "daily report"); !strings.Contains(out, string(*now.NextRun)) || !strings.Contains(out, "a=b, c=d") {
		t.Errorf("got:\n%s", out)
	}
	if out := do("delete", "daily report"); out != "deleted\n" {
		t.Errorf("delete: %q", out)
	}
	for _, wrong := range []struct {
		says string
		code int
		args []string
	}{
		{"corvo: NOT_FOUND: no schedule is named", exitFailed, []string{"get", "daily report"}},
		{"corvo: NOT_FOUND: there is no schedule \"sched_", exitFailed, []string{"delete", made.ID}},
		{"--payload is not JSON", exitMisuse, []string{"create", "x", "--queue", "q", "--cron", "@daily", "--payload", "{"}},
		{"cron", exitMisuse, []string{"create", "x", "--queue", "q"}},
		{"accepts 1 arg", exitMisuse, []string{"run"}},
		{"there is no command \"rum\" in corvo schedules; is it run?", exitMisuse, []string{"rum"}},
	} {
		if a := ask(wrong.args...); a.code != wrong.code || a.stdout != "" || !strings.Contains(a.stderr, wrong.says) {
			t.Errorf("%q: %+v, want %d and %q", wrong.args, a, wrong.code, wrong.says)
		}
	}
}
