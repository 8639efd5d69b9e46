package server

import (
	"net/http"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// prices declares the resource for the namespace's own prices. The prices shipped with the server are shown
// beside them.
var prices = &resource[api.PriceRequest, api.Price]{
	kind: state.ResourceKind_RESOURCE_KIND_PRICE,
	path: "/prices", item: "/{id}", one: "price", many: "prices, including the built-in ones",
	read: tenancy.QueueRead, write: tenancy.QueueManage,
	prefix: "price_", named: inPath,
	from: func(f *convert.Faults, body *api.PriceRequest, _ *state.Resource, _ int64) *op.PutResource {
		return convert.FromPrice(f, body)
	},
	to:    func(_ *cell.Cell, r *state.Resource) (api.Price, error) { return convert.ToPrice(r), nil },
	queue: func(*state.Resource) string { return "" },
}

// priceRoutes returns the routes of prices, extended so that shipped prices are listed and read. A change of
// a shipped price is refused with STATE_CONFLICT.
func (s *Server) priceRoutes() []serve.Route {
	rows := prices.routes(s)
	for i, row := range rows {
		item := row.Path != "/api/v1"+prices.path
		switch {
		case row.Method == "GET" && !item:
			rows[i].Handler = s.listPrices
		case row.Method == "GET":
			rows[i].Handler = s.orShipped(row.Handler, s.shippedPrice)
		case item:
			rows[i].Handler = s.orShipped(row.Handler, func(_ http.ResponseWriter, r *http.Request) error {
				return api.Errorf(api.StateConflict, "price %s is built in and cannot be changed: POST a price for the same model, which overrides it",
					text.Quote(inPath(r)))
			})
		}
	}
	return rows
}

// orShipped returns a handler that calls shipped for the id of a shipped price and own for every other id.
func (s *Server) orShipped(own, shipped serve.Handler) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if strings.HasPrefix(inPath(r), convert.ShippedPrefix) {
			return shipped(w, r)
		}
		return own(w, r)
	}
}

func (s *Server) listPrices(w http.ResponseWriter, r *http.Request) error {
	_, home, err := s.atHome(r)
	if err != nil {
		return err
	}
	all := []api.Price{}
	for _, kind := range [...]state.ResourceKind{state.ResourceKind_RESOURCE_KIND_PRICE, state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE} {
		for _, rec := range home.State().ResourceIndex().Resources(kind) {
			all = append(all, convert.ToPrice(rec))
		}
	}
	return serve.WriteJSON(w, http.StatusOK, all)
}

func (s *Server) shippedPrice(w http.ResponseWriter, r *http.Request) error {
	_, home, err := s.atHome(r)
	if err != nil {
		return err
	}
	rec := home.State().ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE, strings.TrimPrefix(inPath(r), convert.ShippedPrefix))
	if rec == nil {
		return api.Errorf(api.NotFound, "there is no price %s", text.Quote(inPath(r)))
	}
	return writeVersion(w, http.StatusOK, rec.Version, convert.ToPrice(rec))
}
