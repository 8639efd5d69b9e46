package server

import (
	"net/http"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/tenancy"
)

// unbuilt lists the documented routes that this server does not implement yet: methods, path below /cloud/v1
// and the permission that the routes will need. A caller with the permission gets 501 with the method and
// path. unbuiltRoutes adds the webhook of the payment provider, which is open, and two routes that will stay
// refused.
var unbuilt = []struct {
	methods    string
	path       string
	permission tenancy.Permission
}{
	{"GET", "/orgs/{org}/members", tenancy.OrgRead},
	{"POST", "/orgs/{org}/members", tenancy.OrgManage},
	{"PATCH DELETE", "/orgs/{org}/members/{id}", tenancy.OrgManage},
	{"POST", "/orgs/{org}/portal-session", tenancy.BillingManage},
	{"POST", "/orgs/{org}/checkout-session", tenancy.BillingManage},

	{"POST", "/namespaces/{ns}/undelete", tenancy.NamespaceManage},
	{"POST", "/namespaces/{ns}/suspend", tenancy.NamespaceManage},
	{"POST", "/namespaces/{ns}/resume", tenancy.NamespaceManage},
	{"POST", "/namespaces/{ns}/fork", tenancy.NamespaceManage},
	{"GET", "/namespaces/{ns}/backups", tenancy.NamespaceRead},
	{"POST", "/namespaces/{ns}/backups", tenancy.NamespaceManage},
	{"POST", "/namespaces/{ns}/restore", tenancy.NamespaceManage},
	{"GET", "/namespaces/{ns}/limits", tenancy.NamespaceRead},
	{"PUT", "/namespaces/{ns}/limits", tenancy.NamespaceManage},

	{"GET", "/regions", tenancy.NamespaceRead},
}

// unbuiltRoutes returns the rows of the routes table for unimplemented routes.
func unbuiltRoutes() []serve.Route {
	all := []serve.Route{unbuiltRoute("POST", "/webhooks/stripe", serve.Open)}
	for _, u := range unbuilt {
		for _, method := range strings.Fields(u.methods) {
			all = append(all, unbuiltRoute(method, cloud+u.path, u.permission))
		}
	}
	// A cluster comes and goes with its namespace, so these two will not be built.
	return append(all,
		unsupportedRoute("POST", cloud+"/clusters", tenancy.FleetOperate, "does not exist, because a cluster comes with its namespace: create a namespace"),
		unsupportedRoute("DELETE", cloud+"/clusters/{id}", tenancy.FleetOperate, "does not exist, because a cluster goes with its namespace: delete the namespace"))
}

func unbuiltRoute(method, path string, permission tenancy.Permission) serve.Route {
	return unsupportedRoute(method, path, permission, "is not built yet")
}

// unsupportedRoute returns a documented route that answers 501 with its name and the reason.
func unsupportedRoute(method, path string, permission tenancy.Permission, why string) serve.Route {
	return serve.Route{
		Method: method, Path: path, Permission: permission, Summary: "Answer 501, because this is not supported", Unbuilt: true,
		Handler: func(http.ResponseWriter, *http.Request) error {
			return api.Errorf(api.Unsupported, "%s %s %s", method, path, why)
		},
	}
}
