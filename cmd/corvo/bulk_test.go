package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// TestBulkReadsIDs reads the output of `corvo search`, a JSON list of ids, and ids one a line.
func TestBulkReadsIDs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "",
		"\n \n":                                 "",
		"job_1\n\n job_2 \r\njob_3":             "job_1 job_2 job_3",
		` [{"id":"job_1","queue":"q"},"job_2"]`: "job_1 job_2",
		"[]":                                    "",
	} {
		ids, err := readIDs(strings.NewReader(text))
		if err != nil || !slices.Equal(ids, strings.Fields(want)) {
			t.Errorf("%q: %q, %v", text, ids, err)
		}
	}
	for _, text := range []string{`[{"queue":"q"}]`, `[1]`, `[`} {
		if ids, err := readIDs(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %q", text, ids)
		}
	}
}

// TestBulkSplitsManyIDs checks that each of many ids counts once and that the command prints the sum.
func TestBulkSplitsManyIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := startServer(t, "--data-dir", dir)
	c := newClient(t, node.endpoint, adminKey(t, dir))
	jobs := make([]api.EnqueueRequest, 25)
	for i := range jobs {
		jobs[i].Queue = "mails"
	}
	made, err := c.EnqueueBatch(within(t), jobs)
	if err != nil {
		t.Fatal(err)
	}
	lost := "job_06H019QHKTCSF9MAZAWEHZMQ14"
	ids := slices.Concat(made.JobIDs[:12], []string{lost}, made.JobIDs, []string{lost})
	b := &bulk{lot: 10}
	if n := len(b.requests(api.BulkRequest{JobIDs: ids})); n != 3 {
		t.Errorf("%d requests for 26 ids, 10 in each", n)
	}
	cmd := newBulk()
	cmd.SetContext(within(t))
	sum, err := b.do(cmd, c, api.BulkRequest{Action: "hold", JobIDs: ids, Async: true})
	if sum.Processed != 26 || sum.Affected != 25 || sum.Errors != 1 {
		t.Errorf("%d processed, %d affected, %d errors", sum.Processed, sum.Affected, sum.Errors)
	}
	if len(sum.Failures) != 1 || sum.Failures[0].JobID != lost {
		t.Errorf("failures %+v, want one of %s", sum.Failures, lost)
	}
	if strings.Count(sum.ID, "bulk_") != 3 {
		t.Errorf("the ids %q, want three", sum.ID)
	}
	if err == nil || !strings.Contains(err.Error(), "1 of 26 jobs were not held") {
		t.Error(err)
	}
	if all := (&bulk{}).requests(api.BulkRequest{JobIDs: make10001()}); len(all) != 2 || len(all[0].JobIDs) != 10_000 || len(all[1].JobIDs) != 1 {
		t.Errorf("10,001 ids are %d requests", len(all))
	}
}

// TestBulkTellsOfFailuresBesideTheOutcome checks that stdout holds only the outcome. Stderr lists the jobs
// that were not affected, before the outcome's error. With JSON, the document on stdout contains these jobs.
func TestBulkTellsOfFailuresBesideTheOutcome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := startServer(t, "--data-dir", dir)
	env := []string{"CORVO_ENDPOINT=" + node.endpoint, "CORVO_API_KEY=" + adminKey(t, dir)}
	lost := "job_06H019QHKTCSF9MAZAWEHZMQ14"
	a := corvoFed(t, strings.NewReader(lost), env, "bulk", "hold")
	if a.code != exitFailed || a.stdout != "0 jobs held, 1 not\n" {
		t.Errorf("%+v", a)
	}
	if lines := strings.Split(a.stderr, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], lost+"  NOT_FOUND  ") || lines[1] != "corvo: 1 of 1 job was not held" {
		t.Errorf("stderr is %q", a.stderr)
	}
	a = corvoFed(t, strings.NewReader(lost), env, "bulk", "hold", "--output", "json")
	if a.code != exitFailed || !strings.Contains(a.stdout, `"failures":[{"job_id":"`+lost) || a.stderr != "corvo: 1 of 1 job was not held\n" {
		t.Errorf("%+v", a)
	}
	var out strings.Builder
	showFailures(&out, api.Bulk{Errors: 3, Failures: []api.BulkFailure{{JobID: "job_1", Code: "NOT_FOUND", Error: "\u009b2Jgone"}}})
	if out.String() != "job_1  NOT_FOUND   2Jgone\nand 2 more\n" {
		t.Errorf("%q", out.String())
	}
}

func make10001() (ids []string) {
	for i := range 10_001 {
		ids = append(ids, fmt.Sprint(i))
	}
	return ids
}

// TestBulkIsToldInWords checks that the outcome uses the words of the action for every result.
func TestBulkIsToldInWords(t *testing.T) {
	t.Parallel()
	did := map[string]string{
		"retry": "retried", "requeue": "requeued", "cancel": "cancelled", "move": "moved", "change_priority": "given another priority",
		"approve": "approved", "reject": "rejected", "hold": "held", "delete": "deleted",
	}
	for _, action := range bulkActions {
		for _, c := range []struct {
			b    api.Bulk
			want string
		}{
			{api.Bulk{Status: api.BulkCompleted, Affected: 3}, "3 jobs " + did[action]},
			{api.Bulk{Status: api.BulkCompleted, Affected: 1}, "1 job " + did[action]},
			{api.Bulk{Status: api.BulkCompleted}, "0 jobs " + did[action]},
			{api.Bulk{Status: api.BulkCancelled, Affected: 2, Errors: 1}, "cancelled: 2 jobs " + did[action] + ", 1 not"},
		} {
			var out strings.Builder
			c.b.Action = action
			if showBulk(&out, c.b); did[action] == "" || out.String() != c.want+"\n" {
				t.Errorf("%+v: %q, want %q", c.b, out.String(), c.want)
			}
		}
	}
}
