package main

import (
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api/client"
)

// TestMisspeltWordsAreSuggested checks that a misspelt command or flag suggests the nearest one, or else
// where to look.
func TestMisspeltWordsAreSuggested(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"search --qeue mails": "unknown flag: --qeue, is it --queue?",
		"enqueue q --dely 1m": "is it --delay?",
		"serch":               "is it search?",
		"kyes create":         "is it keys?",
		"search --frobnicate": "unknown flag: --frobnicate; see corvo search --help",
		"enqueue q --delay 1m --scheduled-at 2035-01-01": "give one of them",
	} {
		a := corvo(t, []string{"CORVO_ENDPOINT=http://127.0.0.1:1", "CORVO_API_KEY=x"}, strings.Fields(line)...)
		if a.code != exitMisuse || !strings.Contains(a.stderr, says) {
			t.Errorf("corvo %s: exit %d: %s", line, a.code, a.stderr)
		}
	}
}

// TestVersionIsAFlag checks that --version and the command version print the same.
func TestVersionIsAFlag(t *testing.T) {
	t.Parallel()
	flag, command := corvo(t, nil, "--version"), corvo(t, nil, "version")
	if flag.code != 0 || flag.stdout != command.stdout || strings.TrimSpace(flag.stdout) == "" {
		t.Errorf("--version prints %q, version %q", flag.stdout, command.stdout)
	}
}

// enqueue --delay schedules the job that long from now.
func TestEnqueueWithADelay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	key, before := adminKey(t, dir), time.Now()
	a := corvo(t, []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + key}, "enqueue", "reminders", "--delay", "10m")
	after := time.Now()
	if a.code != 0 {
		t.Fatalf("exit %d: %s", a.code, a.stderr)
	}
	job, err := newClient(t, p.endpoint, key).Job(t.Context(), strings.TrimSpace(a.stdout), client.Read{})
	if err != nil || job.State != "scheduled" || job.ScheduledAt == nil {
		t.Fatalf("%+v, %v", job, err)
	}
	at, _, err := job.ScheduledAt.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if at.Before(before.Add(10*time.Minute)) || at.After(after.Add(10*time.Minute)) {
		t.Errorf("it is scheduled at %v, enqueued between %v and %v", at, before, after)
	}
}
