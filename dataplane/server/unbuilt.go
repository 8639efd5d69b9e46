package server

import (
	"net/http"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/tenancy"
)

// unbuilt are the documented routes that this server does not have yet, with the
// permission they will ask for: methods, path below /api/v1. They answer 501 and
// their own name, to those who may know.
var unbuilt = []struct {
	methods    string
	path       string
	permission tenancy.Permission
}{

	{"PUT", "/auth/keys/{id}", tenancy.KeyManage},
	{"POST", "/auth/keys/{id}/rotate", tenancy.KeyManage},
	{"GET POST", "/auth/roles", tenancy.KeyManage},
	{"GET PUT DELETE", "/auth/roles/{id}", tenancy.KeyManage},

	{"GET", "/metrics/throughput", tenancy.NodeRead},
	{"POST", "/admin/backup", tenancy.NodeAdmin},
	{"POST", "/admin/restore", tenancy.NodeAdmin},
}

const unbuiltSummary = "Not built yet: answers 501"

// unbuiltRoutes are the rows of the routes table for what is not built.
func unbuiltRoutes() []serve.Route {
	all := []serve.Route{
		unbuiltRoute("GET", "/docs", serve.Open),
		unbuiltRoute("GET", "/ui/", serve.Open),
	}
	for _, u := range unbuilt {
		for _, method := range strings.Fields(u.methods) {
			all = append(all, unbuiltRoute(method, "/api/v1"+u.path, u.permission))
		}
	}
	return all
}

func unbuiltRoute(method, path string, permission tenancy.Permission) serve.Route {
	return serve.Route{
		Method: method, Path: path, Permission: permission, Summary: unbuiltSummary,
		Handler: func(http.ResponseWriter, *http.Request) error {
			return api.Errorf(api.Unsupported, "%s %s is not built yet", method, path)
		},
	}
}

func isUnbuilt(r serve.Route) bool { return r.Summary == unbuiltSummary }
