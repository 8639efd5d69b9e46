package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// What `corvo search` prints, a list of ids, and an id a line are all read.
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

// However many ids come in, each counts once, and what is told is their sum.
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
	if sum.Processed != 26 || sum.Affected != 25 || sum.Errors != 1 || len(sum.Failures) != 1 || sum.Failures[0].JobID != lost || strings.Count(sum.ID, "bulk_") != 3 {
		t.Errorf("%+v", sum)
	}
	if err == nil || !strings.Contains(err.Error(), "1 of 26 jobs were not affected") {
		t.Error(err)
	}
	if all := (&bulk{}).requests(api.BulkRequest{JobIDs: make10001()}); len(all) != 2 || len(all[0].JobIDs) != 10_000 || len(all[1].JobIDs) != 1 {
		t.Errorf("10,001 ids are %d requests", len(all))
	}
}

func make10001() (ids []string) {
	for i := range 10_001 {
		ids = append(ids, fmt.Sprint(i))
	}
	return ids
}
