package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// TestAnOutcomeIsUnknownAfterAnOp checks that a request of several ops whose second op finds no leader, or a stopped
// replica, does not count as one that changed nothing. Other refusals have no outcome.
func TestAnOutcomeIsUnknownAfterAnOp(t *testing.T) {
	t.Parallel()
	n := OpenForTest(t, host.Config{}, host.Spec{}, nil)
	for _, c := range []struct {
		code    api.Code
		ops     int
		outcome string
	}{
		{api.LeaderUnavailable, 0, fleet.Unchanged}, {api.LeaderUnavailable, 1, fleet.Unknown},
		{api.Unhealthy, 0, fleet.Unchanged}, {api.Unhealthy, 1, fleet.Unknown},
		{api.ViewBehind, 0, ""},
	} {
		h, err := serve.New(serve.Config{Mark: n.Server.mark, Routes: []serve.Route{{
			Method: http.MethodPost, Path: "/", Permission: serve.Open,
			Handler: func(_ http.ResponseWriter, r *http.Request) error {
				for range c.ops {
					fail := &op.Fail{Meta: &op.Meta{RequestId: n.Cell.RequestID()}, Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: make([]byte, len(job.ID{}))}}}}
					if _, _, err := propose[*op.FailResult](r.Context(), n.Server, n.Cell, fail); err != nil {
						t.Error(err)
					}
				}
				return api.Errorf(c.code, "not here")
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		if got := w.Header().Get(fleet.OutcomeHeader); w.Code != c.code.Status() || got != c.outcome {
			t.Errorf("%s after %d ops: %d %q, want %q", c.code, c.ops, w.Code, got, c.outcome)
		}
	}
}
