package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

// unbuiltRoutes returns the documented pages that this server does not have yet. They answer 501 and name
// their path.
func unbuiltRoutes() (all []serve.Route) {
	for _, path := range []string{"/ui/"} {
		all = append(all, serve.Route{
			Method: "GET", Path: path, Permission: serve.Open, Summary: "Answer 501, because this is not built yet", Unbuilt: true,
			Handler: func(http.ResponseWriter, *http.Request) error {
				return api.Errorf(api.Unsupported, "GET %s is not built yet", path)
			},
		})
	}
	return all
}
