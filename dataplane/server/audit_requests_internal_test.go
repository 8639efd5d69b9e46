package server

import (
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/corvo/corvo/api/serve/tally"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/tenancy"
)

var stranger = tenancy.Principal{}

// TestCountedRequestsBecomeRecords checks that the op of counted requests is valid. One of its records counts
// the requests for which there was no room.
func TestCountedRequestsBecomeRecords(t *testing.T) {
	t.Parallel()
	o := requestsOp([]requestRow{
		{Count: 7, LeftOut: true},
		{Kind: requestName{"k", requestKind{"GET", "/a", 403}}, Value: &op.Audit{Method: "GET", Path: "/a", Status: 403}, Count: 2},
	})
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []*op.Request{
		{Audit: &op.Audit{Method: "any", Path: tally.LeftOut, Status: 429}, Count: 7},
		{Principal: "k", Audit: &op.Audit{Method: "GET", Path: "/a", Status: 403}, Count: 2},
	}
	if diff := cmp.Diff(want, o.Requests, protocmp.Transform()); diff != "" {
		t.Errorf("the requests of the op (-want +got):\n%s", diff)
	}
	if next := requestsOp([]requestRow{{Count: 1, LeftOut: true}}); slices.Equal(o.Meta.RequestId, next.Meta.RequestId) {
		t.Error("two ops have one request id")
	}
}

func TestKnownPrincipalsComeFirst(t *testing.T) {
	t.Parallel()
	all := []requestName{{"", requestKind{path: "/a"}}, {"k", requestKind{path: "/b"}}, {"", requestKind{path: "/c"}}, {"j", requestKind{path: "/d"}}}
	slices.SortStableFunc(all, knownFirst)
	got := ""
	for _, n := range all {
		got += n.path
	}
	if got != "/b/d/a/c" {
		t.Errorf("the order is %s", got)
	}
}

func BenchmarkRefusedRequest(b *testing.B) {
	s := &Server{}
	s.requests = s.newRequests()
	s.requests.Add("default", struct{}{}, requestName{"", requestKind{"GET", "/api/v1/jobs/{id}", 401}}, func() *op.Audit { return &op.Audit{} })
	r := httptest.NewRequest("GET", "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		s.countRequest("default", stranger, requestKind{"GET", "/api/v1/jobs/{id}", 401}, r)
	}
}
