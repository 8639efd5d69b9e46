package serve

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// A handler checks the conditions of a request, or the server refuses them.
func TestConditions(t *testing.T) {
	t.Parallel()
	n := newNode(t,
		Route{Method: "GET", Path: "/things/{id}", Permission: tenancy.JobRead, Handler: answer("read")},
		get("/healthz", answer("healthy")),
		Route{Method: "POST", Path: "/things/{id}/fork", Permission: Open, Unbuilt: true, Handler: answer("not built")},
		Route{Method: "PUT", Path: "/things/{id}", Permission: Open, Conditions: []string{IfMatch, IfNoneMatch}, Handler: answer("put")},
		Route{Method: "DELETE", Path: "/things/{id}", Permission: Open, Conditions: []string{IfMatch}, Handler: answer("deleted")},
		post("/things/{id}/stop", answer("stopped")),
		post("/things", answer("made")),
		post("/things2", answer("else")),
	)
	for _, c := range []struct{ method, path, header, refused string }{
		{"GET", "/things/1", IfNoneMatch, ""},
		{"HEAD", "/things/1", IfNoneMatch, ""},
		{"GET", "/things/1", IfMatch, "If-Match is taken by PUT /things/{id} and DELETE /things/{id}, and not by GET /things/{id}: leave it out"},
		{"GET", "/healthz", IfMatch, ""},
		{"HEAD", "/healthz", IfMatch, ""},
		{"POST", "/things/1/fork", IfMatch, ""},
		{"POST", "/things/1/fork", IfNoneMatch, ""},
		{"PUT", "/things/1", IfMatch, ""},
		{"PUT", "/things/1", IfNoneMatch, ""},
		{"DELETE", "/things/1", IfMatch, ""},
		{"DELETE", "/things/1", IfNoneMatch, "If-None-Match is taken by PUT /things/{id}, and not by DELETE /things/{id}: leave it out"},
		{"POST", "/things/1/stop", IfMatch, "by PUT /things/{id} and DELETE /things/{id}, and not"},
		{"POST", "/things", IfMatch, "by PUT /things/{id} and DELETE /things/{id}, and not"},
		{"POST", "/things2", IfMatch, "If-Match is not taken by POST /things2: leave it out"},
	} {
		w := n.do(c.method, c.path, "", c.header, "", "Authorization", "Bearer readonly")
		if c.refused == "" {
			if w.Code != 200 {
				t.Errorf("%s %s with %s: %d %s", c.method, c.path, c.header, w.Code, w.Body)
			}
			continue
		}
		if p := wantProblem(t, w, api.ValidationError); !strings.Contains(p.Error, c.refused) {
			t.Errorf("%s %s with %s: %s", c.method, c.path, c.header, p.Error)
		}
	}
	if _, err := New(Config{Routes: []Route{{Method: "PUT", Path: "/", Permission: Open, Handler: answer("x"), Conditions: []string{"If-Range"}}}}); err == nil {
		t.Error("a condition that nobody judges is taken")
	}
}
