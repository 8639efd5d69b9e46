package main

import (
	"slices"
	"strings"
	"testing"
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
