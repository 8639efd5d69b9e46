package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/client"
)

// TestEventsEndAtAnUnreadableEvent follows a server whose second event cannot be read. The follower gets the first event
// and then an error, because every further connection would begin with the same event.
func TestEventsEndAtAnUnreadableEvent(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{
		"no JSON":  "{",
		"too long": strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				if r.URL.Query().Get("last_event_id") == "" {
					fmt.Fprint(w, "id: 1\ndata: {\"type\":\"enqueued\"}\n\n")
				}
				fmt.Fprintf(w, "id: 2\ndata: %s\n\n", second)
			}))
			defer s.Close()
			c, err := client.New(s.URL, "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			events := 0
			for e, err := range c.Events(t.Context(), client.EventQuery{}) {
				if err != nil {
					if !strings.Contains(err.Error(), "an event cannot be read") {
						t.Errorf("the error is %v", err)
					}
					if events != 1 {
						t.Errorf("the error came after %d events", events)
					}
					return
				}
				if events++; e.Type != "enqueued" || events > 1 {
					t.Fatalf("event %d is %+v", events, e)
				}
			}
			t.Error("the events ended without an error")
		})
	}
}
