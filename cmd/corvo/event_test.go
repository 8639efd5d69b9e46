package main

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// TestEventsDoNotSpeakToTheTerminal checks that an event's text, which may come from anybody, neither ends
// its line early nor controls the terminal.
func TestEventsDoNotSpeakToTheTerminal(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{}`: "1970-01-01T00:00:01Z  failed            mails             job_1                           \n",
		"{\"error\":\"\u009b2Jgone \u202eback\nand\tmore é\"}": "1970-01-01T00:00:01Z  failed            mails             job_1                           {\"error\":\" 2Jgone  back and more é\"}\n",
	} {
		var out strings.Builder
		e := api.Event{Type: "failed", Queue: "mails", JobID: "job_1", AtNs: 1_000_000_000, Data: []byte(data)}
		if err := showEvent(&out, e); err != nil || out.String() != want {
			t.Errorf("%q: %q, want %q, %v", data, out.String(), want, err)
		}
	}
}
