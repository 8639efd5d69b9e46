package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestCompletion checks that the shell offers the words of the API and the names on the server.
func TestCompletion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	env := []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + adminKey(t, dir)}
	made := corvo(t, env, "enqueue", "mails")
	id := strings.TrimSpace(made.stdout)
	if made.code != 0 {
		t.Fatal(made.stderr)
	}
	corvo(t, env, "schedules", "create", "nightly", "--queue", "reports", "--cron", "@daily", "--paused")
	offered := func(env []string, words ...string) []string {
		t.Helper()
		a := corvo(t, env, append([]string{"__complete"}, words...)...)
		lines := strings.Split(strings.TrimSpace(a.stdout), "\n")
		if a.code != 0 || lines[len(lines)-1] != ":4" { // 4: no file names
			t.Errorf("%q: %d, %q", words, a.code, a.stdout)
		}
		return lines[:len(lines)-1]
	}
	// The view shows a new job a moment later.
	eventually(t, within(t), "a job to offer", func() bool {
		return slices.Equal(offered(env, "retry", "job_"), []string{id + "\tmails pending"})
	})
	for words, want := range map[string]string{
		"pause |":                  "mails",
		"drain mails |":            "",
		"move " + id + " |":        "mails",
		"bulk re|":                 "retry requeue reject",
		"bulk move |":              "mails",
		"bulk change_priority |":   "critical high normal",
		"bulk retry |":             "",
		"search --queue |":         "mails",
		"search --state de|":       "dead",
		"enqueue |":                "mails",
		"enqueue m --priority |":   "critical high normal",
		"schedules get |":          "nightly",
		"inspect --output |":       "table json",
		"queues se|":               "set",
		"retry " + id + " --pro|":  "--profile",
		"cluster remove |":         "",
		"usage --group-by que|":    "queue",
		"profiles use nobo|":       "",
		"cloud usage --group-by q": "queue",
	} {
		line := strings.Split(strings.TrimSuffix(words, "|"), " ")
		var got []string
		for _, one := range offered(env, line...) {
			name, _, _ := strings.Cut(one, "\t")
			if strings.HasPrefix(name, line[len(line)-1]) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	// Without a server, completion still offers the words.
	gone := []string{"CORVO_ENDPOINT=http://127.0.0.1:1"}
	if got := offered(gone, "pause", ""); len(got) > 0 {
		t.Errorf("queues of nobody: %q", got)
	}
	if got := offered(gone, "bulk", ""); len(got) != len(bulkActions) {
		t.Errorf("actions: %q", got)
	}
}

// TestCompletionScripts checks that each shell accepts its script.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		a := corvo(t, nil, "completion", shell)
		if a.code != 0 || !strings.Contains(a.stdout, "corvo") {
			t.Errorf("%s: %d %s", shell, a.code, a.stderr)
			continue
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // the machine has no such shell
		}
		check := exec.CommandContext(within(t), path, "-n")
		check.Stdin = strings.NewReader(a.stdout)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", shell, err, out)
		}
	}
}
