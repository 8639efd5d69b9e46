package server

import (
	"net/http"
	"testing"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// thing is a resource only of this test: a provider whose limit is the size of the thing. Things of size 1
// concern the queue mine.a, all others the namespace.
type thing struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Things returns a handler of the routes for things.
func (s *Server) Things(t testing.TB, prefix string) http.Handler {
	t.Helper()
	routes := things(prefix).routes(s)
	for i, route := range routes {
		routes[i].Handler, routes[i].Strict = s.visiting(s.admitting(route)), !lenient(route)
	}
	h, err := serve.New(serve.Config{
		Routes: routes, Authenticate: s.authenticate, Logger: s.cfg.Logger, Metrics: telemetry.NewHTTP(telemetry.NewRegistry()), MaxBody: bodyManage,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func things(prefix string) *resource[thing, thing] {
	return &resource[thing, thing]{
		kind: state.ResourceKind_RESOURCE_KIND_PROVIDER, path: "/things", item: "/{id}", one: "thing", many: "things",
		read: tenancy.QueueRead, write: tenancy.QueueManage, prefix: prefix, named: inPath,
		nameOf: func(body *thing) string { return body.Name },
		nameIn: "name",
		from: func(_ *convert.Faults, body *thing, _ *state.Resource, _ int64) *op.PutResource {
			return &op.PutResource{Resource: &state.Resource{Provider: &state.Provider{Requests: uint64(body.Size)}}}
		},
		to: func(_ *cell.Cell, r *state.Resource) (thing, error) {
			return thing{r.Name, int64(r.Provider.Requests)}, nil
		},
		queue: func(r *state.Resource) string {
			if r.Provider.GetRequests() == 1 {
				return "mine.a"
			}
			return ""
		},
	}
}
