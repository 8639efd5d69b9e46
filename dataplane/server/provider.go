package server

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// providers declares the resource for model providers. Fetches keep to the limits of the providers.
var providers = &resource[api.ProviderRequest, api.Provider]{
	kind: state.ResourceKind_RESOURCE_KIND_PROVIDER,
	path: "/providers", item: "/{id}", one: "provider", many: "providers",
	read: tenancy.QueueRead, write: tenancy.QueueManage,
	named:  inPath,
	nameOf: func(body *api.ProviderRequest) string { return body.Name },
	nameIn: "name",
	from:   convert.FromProvider,
	across: toProvider,
	queue:  func(*state.Resource) string { return "" },
}

// toProvider converts a provider with its traffic from all shards, as far as this node knows it.
func toProvider(shards router.Shards, r *state.Resource) (api.Provider, error) {
	shown := convert.ToProvider(r)
	for _, c := range shards.All() {
		t, err := op.TrafficTo(c.State(), r, c.NowNs())
		if err != nil {
			return api.Provider{}, err
		}
		convert.AddTraffic(&shown, t)
	}
	return shown, nil
}
