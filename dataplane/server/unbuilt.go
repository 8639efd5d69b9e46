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

	{"GET", "/jobs/{id}/why", tenancy.JobRead},
	{"GET", "/jobs/{id}/iterations", tenancy.JobRead},
	{"GET", "/jobs/{id}/events", tenancy.JobRead},
	{"POST", "/jobs/{id}/replay", tenancy.JobManage},
	{"POST", "/jobs/{id}/scores", tenancy.JobManage},
	{"GET", "/search/fulltext", tenancy.JobRead},
	{"POST", "/jobs/bulk-get", tenancy.JobRead},
	{"POST", "/jobs/bulk", tenancy.JobManage},
	{"GET", "/bulk/{id}", tenancy.JobRead},
	{"GET", "/bulk/{id}/progress", tenancy.JobRead},
	{"DELETE", "/bulk/{id}", tenancy.JobManage},

	{"GET", "/budgets", tenancy.QueueRead},
	{"POST", "/budgets", tenancy.QueueManage},
	{"GET", "/budgets/{scope}/{target}", tenancy.QueueRead},
	{"PUT DELETE", "/budgets/{scope}/{target}", tenancy.QueueManage},
	{"GET", "/limit-rules", tenancy.QueueRead},
	{"POST", "/limit-rules", tenancy.QueueManage},
	{"GET", "/limit-rules/{id}", tenancy.QueueRead},
	{"PUT DELETE", "/limit-rules/{id}", tenancy.QueueManage},
	{"GET", "/providers", tenancy.QueueRead},
	{"POST", "/providers", tenancy.QueueManage},
	{"GET", "/providers/{id}", tenancy.QueueRead},
	{"PUT DELETE", "/providers/{id}", tenancy.QueueManage},
	{"GET", "/prices", tenancy.QueueRead},
	{"POST", "/prices", tenancy.QueueManage},
	{"GET", "/prices/{id}", tenancy.QueueRead},
	{"PUT DELETE", "/prices/{id}", tenancy.QueueManage},
	{"GET", "/approval-policies", tenancy.QueueRead},
	{"POST", "/approval-policies", tenancy.QueueManage},
	{"GET", "/approval-policies/{id}", tenancy.QueueRead},
	{"PUT DELETE", "/approval-policies/{id}", tenancy.QueueManage},
	{"GET", "/alerts", tenancy.QueueRead},
	{"POST", "/alerts", tenancy.QueueManage},
	{"GET", "/alerts/{id}", tenancy.QueueRead},
	{"PUT DELETE", "/alerts/{id}", tenancy.QueueManage},
	{"GET", "/webhooks", tenancy.QueueRead},
	{"POST", "/webhooks", tenancy.KeyManage},
	{"GET", "/webhooks/{id}", tenancy.QueueRead},
	{"PUT DELETE", "/webhooks/{id}", tenancy.KeyManage},
	{"POST", "/webhooks/{id}/test", tenancy.KeyManage},
	{"GET", "/webhooks/{id}/deliveries", tenancy.QueueRead},

	{"PUT", "/auth/keys/{id}", tenancy.KeyManage},
	{"POST", "/auth/keys/{id}/rotate", tenancy.KeyManage},
	{"GET POST", "/auth/roles", tenancy.KeyManage},
	{"GET PUT DELETE", "/auth/roles/{id}", tenancy.KeyManage},
	{"GET", "/audit-logs", tenancy.NodeAdmin},

	{"GET", "/usage/summary", tenancy.JobRead},
	{"GET", "/events", tenancy.JobRead},
	{"GET", "/cluster/events", tenancy.NodeRead},
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
