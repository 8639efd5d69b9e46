package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/tenancy"
)

// cloud is the common prefix of the cloud API's paths.
const cloud = "/cloud/v1"

// apiVersion is the version of the cloud API.
const apiVersion = "1"

// metricsPath is the path of the metrics in the cloud API.
const metricsPath = cloud + "/metrics"

// scrapePath is the path that Prometheus scrapes by default.
const scrapePath = "/metrics"

// table returns the routes, each marked strict or lenient.
func (s *Server) table() []serve.Route {
	table := s.routes()
	for i, route := range table {
		table[i].Strict = !lenient(route)
	}
	return table
}

// lenient reports whether a route ignores unknown fields and parameters. Open routes do, among them those of
// hosts and gateways, because the versions of members differ. Scrape routes do, because scrapers send
// parameters of their own. Unimplemented routes do, because they know no parameters.
func lenient(route serve.Route) bool {
	switch route.Permission {
	case serve.Open, tenancy.FleetJoin:
		return true
	}
	return route.Path == metricsPath || route.Path == scrapePath || route.Unbuilt
}

// routes returns all routes of this server.
func (s *Server) routes() []serve.Route {
	built := []serve.Route{
		{Method: "GET", Path: cloud + "/orgs", Permission: tenancy.OrgRead, Handler: s.listOrgs, Query: paging,
			Summary: "List the organisations that the token may see", Response: orgPage{}},
		{Method: "POST", Path: cloud + "/orgs", Permission: tenancy.FleetOperate, Handler: s.createOrg,
			Summary: "Create an organisation", Request: api.CreateOrgRequest{}, Response: api.Org{}, Status: http.StatusCreated},
		{Method: "GET", Path: cloud + "/orgs/{org}", Permission: tenancy.OrgRead, Handler: s.getOrg,
			Summary: "Get an organisation by id or name", Response: api.Org{}},
		{Method: "GET", Path: cloud + "/orgs/{org}/usage", Permission: tenancy.UsageRead, Handler: s.orgUsage, Query: usageParams,
			Summary: "Get the usage of an organisation", Response: api.UsageReport{}},
		{Method: "GET", Path: cloud + "/orgs/{org}/audit", Permission: tenancy.OrgRead, Handler: s.listAudit, Query: paging,
			Summary: "List an organisation's changes and refused requests, oldest first", Response: auditPage{}},

		{Method: "GET", Path: cloud + "/orgs/{org}/namespaces", Permission: tenancy.NamespaceRead, Handler: s.listNamespaces, Query: paging,
			Summary: "List the namespaces of an organisation", Response: namespacePage{}},
		{Method: "POST", Path: cloud + "/orgs/{org}/namespaces", Permission: tenancy.NamespaceManage, Handler: s.createNamespace,
			Summary: "Create a namespace", Description: "The namespace is ready when the operation is done.", Request: api.CreateNamespaceRequest{}, Response: api.Operation{}, Status: http.StatusAccepted},
		{Method: "GET", Path: cloud + "/namespaces/{ns}", Permission: tenancy.NamespaceRead, Handler: s.getNamespace,
			Summary: "Get a namespace by its id or its name", Response: api.Namespace{}},
		{Method: "PATCH", Path: cloud + "/namespaces/{ns}", Permission: tenancy.NamespaceManage, Handler: s.updateNamespace, Conditions: versioned,
			Summary: "Change a namespace", Request: api.UpdateNamespaceRequest{}, Response: api.Namespace{}},
		{Method: "DELETE", Path: cloud + "/namespaces/{ns}", Permission: tenancy.NamespaceManage, Handler: s.deleteNamespace, Conditions: versioned,
			Summary: "Delete a namespace with all its data", Response: api.Operation{}, Status: http.StatusAccepted},
		{Method: "GET", Path: cloud + "/namespaces/{ns}/endpoint", Permission: tenancy.NamespaceRead, Handler: s.getEndpoint,
			Summary: "Get the data-plane endpoint of a namespace", Response: api.Endpoint{}},
		{Method: "GET", Path: cloud + "/namespaces/{ns}/usage", Permission: tenancy.UsageRead, Handler: s.namespaceUsage, Query: usageParams,
			Summary: "Get the usage of a namespace", Response: api.UsageReport{}},

		{Method: "GET", Path: cloud + "/operations", Permission: tenancy.NamespaceRead, Handler: s.listOperations,
			Query:   append([]serve.Param{{Name: "org", Doc: "id or name of the organisation; default: the token's"}}, paging...),
			Summary: "List the operations of an organisation, newest first", Response: operationPage{}},
		{Method: "GET", Path: cloud + "/operations/{id}", Permission: tenancy.NamespaceRead, Handler: s.getOperation,
			Query:   []serve.Param{{Name: "wait", Doc: "longest wait for the end of the operation, such as 30s; at most 60s"}},
			Summary: "Get an operation", Response: api.Operation{}},

		{Method: "GET", Path: cloud + "/hosts", Permission: tenancy.FleetOperate, Handler: s.leaderOnly(s.listHosts), Query: paging,
			Summary: "List hosts and gateways", Response: hostPage{}},
		{Method: "POST", Path: cloud + "/hosts", Permission: tenancy.FleetOperate, Handler: s.createHost,
			Summary: "Register a host or gateway", Description: "Only this answer holds the credential.", Request: api.CreateHostRequest{}, Response: api.CreatedHost{}, Status: http.StatusCreated},
		{Method: "GET", Path: cloud + "/hosts/{host}", Permission: tenancy.FleetOperate, Handler: s.leaderOnly(s.getHost),
			Summary: "Get a host or gateway by id or name", Response: api.Host{}},
		{Method: "DELETE", Path: cloud + "/hosts/{host}", Permission: tenancy.FleetOperate, Handler: s.removeHost, Conditions: versioned,
			Summary: "Remove a host or gateway for ever", Description: "Its credentials and service tokens stop working at once. A host with namespaces is refused: drain it first.", Response: api.Status{}},

		{Method: "GET", Path: cloud + "/audit", Permission: tenancy.FleetOperate, Handler: s.listAllAudit, Query: auditParams,
			Summary: "List all changes and refused requests, oldest first", Description: "The list includes requests without an organisation.", Response: auditPage{}},
		{Method: "GET", Path: cloud + "/audit/verify", Permission: tenancy.FleetOperate, Handler: s.checkAudit, Query: auditPaging,
			Summary: "Verify the hash chain of the audit log, by page", Response: api.AuditCheck{}},
		{Method: "GET", Path: cloud + "/usage/aside", Permission: tenancy.FleetOperate, Handler: s.listAside, Query: paging,
			Summary: "List usage that was set aside, oldest first", Description: "The control plane sets usage aside that it refuses while it deletes a namespace, and usage ahead of its clock.", Response: asidePage{}},
		{Method: "GET", Path: cloud + "/usage/aside/{seq}", Permission: tenancy.FleetOperate, Handler: s.getAside,
			Summary: "Get usage that was set aside, with its frame", Response: api.AsideUsage{}},
		{Method: "DELETE", Path: cloud + "/usage/aside/{seq}", Permission: tenancy.FleetOperate, Handler: s.removeAside,
			Summary: "Remove usage that was set aside", Description: "Keep the frame first if the organisation is to be charged for it: it cannot be restored. Deletions that wait for room continue.", Response: api.Status{}},

		{Method: "GET", Path: metricsPath, Permission: tenancy.FleetOperate, Handler: s.metrics, Summary: "Get metrics in the Prometheus text format"},
		{Method: "GET", Path: scrapePath, Permission: tenancy.FleetOperate, Handler: s.metrics, Operation: "scrapeMetrics", Summary: "Get metrics at Prometheus's default path"},
		{Method: "GET", Path: cloud + "/openapi.json", Permission: serve.Open, Handler: s.openAPI, Summary: "Get this document"},
		{Method: "GET", Path: wire.JWKSPath, Permission: serve.Open, Handler: s.jwks, Summary: "Get the public keys of service tokens and signed documents"},
		{Method: "GET", Path: "/healthz", Permission: serve.Open, Handler: s.healthz, Summary: "Check whether the process works", Response: api.Health{}},
		{Method: "GET", Path: "/readyz", Permission: serve.Open, Handler: s.readyz, Summary: "Check whether this server can take requests", Response: api.Health{}},
	}
	built = append(built, s.keyRoutes(cloud+"/namespaces/{ns}/keys", namespaceKeys)...)
	built = append(built, s.roleRoutes()...)
	built = append(built, s.operatorRoutes()...)
	built = append(built, s.creditRoutes()...)
	built = append(built, s.correctionRoutes()...)
	built = append(built, s.ledgerRoutes()...)
	built = append(built, s.hostDrainRoutes()...)
	built = append(built, s.fleetRootRoutes()...)
	built = append(built, s.clusterRoutes()...)
	built = append(built, s.processRoutes()...)
	built = append(built, s.billingRoutes()...)
	built = append(built, s.spendLimitRoutes()...)
	built = append(built, s.invoiceRoutes()...)
	built = append(built, s.keyRoutes(cloud+"/orgs/{org}/keys", cloudTokens)...)
	built = append(append(built, s.fleetRoutes()...), s.elsewhereRoutes()...)
	return append(built, unbuiltRoutes()...)
}

// elsewhereRoutes returns routes for the paths of the data plane. They answer NOT_FOUND with the gateway's
// URL, for clients that were configured with the control plane's URL.
func (s *Server) elsewhereRoutes() (all []serve.Route) {
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		all = append(all, serve.Route{Method: method, Path: "/api/v1/{path...}", Permission: serve.Open, Handler: s.elsewhere, Summary: elsewhereSummary,
			Conditions: []string{serve.IfMatch, serve.IfNoneMatch}})
	}
	return append(all, serve.Route{Method: "POST", Path: rpc.Prefix + "{procedure}", Permission: serve.Open, Handler: s.elsewhere, Problem: rpc.Refuse, Summary: elsewhereSummary,
		Conditions: []string{serve.IfMatch, serve.IfNoneMatch}})
}

const elsewhereSummary = "Name the endpoint of the data plane"

func (s *Server) elsewhere(http.ResponseWriter, *http.Request) error {
	return api.Errorf(api.NotFound, "this is the control plane of a cloud, and jobs and queues are not here: send the request to %s", s.cfg.Endpoint)
}

// keyRoutes returns the routes for the keys of one kind of owner.
func (s *Server) keyRoutes(path string, d keyOwner) []serve.Route {
	noun, article := d.kindName, "a "
	if noun[0] == 'A' {
		article = "an "
	}
	return []serve.Route{
		{Method: "GET", Path: path, Permission: d.read, Handler: s.listKeys(d), Query: paging,
			Summary: "List " + noun + "s", Response: keyPage{}},
		{Method: "POST", Path: path, Permission: d.manage, Handler: s.createKey(d),
			Summary: "Create " + article + noun, Description: "Only this answer holds the secret.", Request: api.CreateCloudKeyRequest{}, Response: api.CloudKey{}, Status: http.StatusCreated},
		{Method: "GET", Path: path + "/{id}", Permission: d.read, Handler: s.getKey(d),
			Summary: "Get " + article + noun, Response: api.Key{}},
		{Method: "PUT", Path: path + "/{id}", Permission: d.manage, Handler: s.setKey(d), Conditions: versioned,
			Summary: "Replace the settings of " + article + noun, Description: "The settings are name, roles, scope, expiry and enabled state. The secret stays.", Request: api.SetKeyRequest{}, Response: api.Key{}},
		{Method: "DELETE", Path: path + "/{id}", Permission: d.manage, Handler: s.revokeKey(d), Conditions: versioned,
			Summary: "Revoke " + article + noun, Response: api.Status{}},
		{Method: "POST", Path: path + "/{id}/rotate", Permission: d.manage, Handler: s.rotateKey(d),
			Summary: "Replace the secret of " + article + noun, Description: "Only this answer holds the new secret.", Request: api.RotateKeyRequest{}, Response: api.CloudKey{}, Status: http.StatusCreated},
	}
}

// fleetRoutes returns the routes for hosts and gateways. memberOnly authenticates the routes that the table
// declares open.
func (s *Server) fleetRoutes() []serve.Route {
	return []serve.Route{
		{Method: "POST", Path: wire.JoinPath, Permission: tenancy.FleetJoin, Handler: s.join, Summary: fleetSummary},
		{Method: "GET", Path: wire.DocsPath, Permission: serve.Open, Handler: s.memberOnly(s.docs), Summary: fleetSummary},
		{Method: "POST", Path: wire.ReportPath, Permission: serve.Open, Handler: s.memberOnly(s.report), MaxBody: wire.MaxReportBody, Summary: fleetSummary},
		{Method: "GET", Path: wire.UsagePath, Permission: serve.Open, Handler: s.memberOnly(s.readUsage), Summary: fleetSummary},
		{Method: "POST", Path: wire.UsagePath, Permission: serve.Open, Handler: s.memberOnly(s.takeUsage), MaxBody: maxUsageBody, Summary: fleetSummary},
		{Method: "POST", Path: wire.AsidePath, Permission: serve.Open, Handler: s.memberOnly(s.takeAside), MaxBody: maxUsageBody, Summary: fleetSummary},
	}
}

const fleetSummary = "Serve hosts and gateways (see api/fleet)"

// document returns the OpenAPI document of a table. It leaves out the routes for hosts and gateways, the data
// plane's paths and unimplemented routes.
func document(table []serve.Route) ([]byte, error) {
	var public []serve.Route
	for _, r := range table {
		if !r.Unbuilt && r.Summary != fleetSummary && r.Summary != elsewhereSummary {
			public = append(public, r)
		}
	}
	return serve.Document(serve.Info{Title: "Corvo Cloud", Version: apiVersion, Description: "Organisations, namespaces, keys and usage."}, public)
}
