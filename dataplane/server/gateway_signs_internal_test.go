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

// TestAnOutcomeIsUnknownAfterAnOp checks that a request of several ops whose second op finds no leader does not count as
// one that changed nothing.
func TestAnOutcomeIsUnknownAfterAnOp(t *testing.T) {
	t.Parallel()
	n := OpenForTest(t, host.Config{}, host.Spec{}, nil)
	for outcome, ops := range map[string]int{fleet.Unchanged: 0, fleet.Unknown: 1} {
		h, err := serve.New(serve.Config{Mark: n.Server.mark, Routes: []serve.Route{{
			Method: http.MethodPost, Path: "/", Permission: serve.Open,
			Handler: func(_ http.ResponseWriter, r *http.Request) error {
				for range ops {
					fail := &op.Fail{Meta: &op.Meta{RequestId: n.Cell.RequestID()}, Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: make([]byte, len(job.ID{}))}}}}
					if _, _, err := propose[*op.FailResult](r.Context(), n.Server, n.Cell, fail); err != nil {
						t.Error(err)
					}
				}
				return api.Errorf(api.LeaderUnavailable, "this node does not lead")
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		if got := w.Header().Get(fleet.OutcomeHeader); w.Code != 503 || got != outcome {
			t.Errorf("after %d ops: %d %q, want %q", ops, w.Code, got, outcome)
		}
	}
}
