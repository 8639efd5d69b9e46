package server

import (
	"cmp"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// This file converts between the types of the control plane and those of the API.

func timeOf(ns int64) api.Time { return api.TimeOf(time.Unix(0, ns)) }

func optional(ns int64) *api.Time {
	if ns == 0 {
		return nil
	}
	at := timeOf(ns)
	return &at
}

func toOrg(o fleet.Org) api.Org {
	return api.Org{
		Resource: api.Resource{ID: string(o.ID), Name: o.Name, ResourceVersion: o.Version, Generation: 1, CreatedAt: timeOf(o.CreatedNs)},
		Status:   api.OrgStatus{Namespaces: o.Namespaces},
	}
}

func toNamespaceResource(n fleet.Namespace) api.Resource {
	return api.Resource{ID: string(n.ID), Name: n.Name, ResourceVersion: n.Version, Generation: n.Generation, CreatedAt: timeOf(n.CreatedNs)}
}

func toSpec(spec fleet.Spec) api.NamespaceSpec {
	return api.NamespaceSpec{
		Region: spec.Region, Tier: spec.Tier, Replicas: spec.Replicas, Shards: spec.Shards, DeletionProtection: spec.DeletionProtection,
	}
}

func (s *Server) toNamespace(n fleet.Namespace) api.Namespace {
	return api.Namespace{
		Resource: toNamespaceResource(n), Org: string(n.Org), Spec: toSpec(n.Spec),
		Status: api.NamespaceStatus{
			Phase:              string(n.Phase),
			Message:            cmp.Or(s.cfg.Reconciler.Waiting(string(n.ID)), s.cfg.Reconciler.Fault(n)),
			ObservedGeneration: n.Observed,
			Replicas:           len(n.Listed()),
			Endpoint:           s.cfg.Endpoint,
			Operation:          n.Operation,
		},
	}
}

func (s *Server) toOperation(o fleet.Operation) api.Operation {
	out := api.Operation{
		ID:         o.ID,
		Kind:       o.Kind,
		Status:     string(o.Status),
		Resource:   api.ResourceRef{Type: "namespace", ID: string(o.Namespace), Name: o.Name},
		CreatedAt:  timeOf(o.CreatedNs),
		FinishedAt: optional(o.FinishedNs),
	}
	if o.Status == fleet.Failed {
		out.Error = &api.OperationError{Code: o.ErrorCode, Error: o.ErrorText}
	}
	if o.Status == fleet.Running {
		out.Message = s.cfg.Reconciler.Waiting(string(o.Namespace))
	}
	return out
}

func (s *Server) toKey(c fleet.Credential) api.Key {
	k := api.Key{
		ID:         c.ID,
		Name:       c.Name,
		Roles:      []string{},
		QueueScope: []string{},
		Enabled:    c.Enabled,
		CreatedAt:  api.TimeOf(c.CreatedAt),
	}
	for _, role := range c.Roles {
		k.Roles = append(k.Roles, string(role))
	}
	for _, glob := range c.QueueScope {
		k.QueueScope = append(k.QueueScope, string(glob))
	}
	if !c.ExpiresAt.IsZero() {
		at := api.TimeOf(c.ExpiresAt)
		k.ExpiresAt = &at
	}
	k.LastUsedAt = optional(s.lastUsed.unix(c.ID) * int64(time.Second))
	return k
}

// kindWords maps a kind to its word in HostSpec.Kind.
var kindWords = map[keyring.Kind]string{keyring.Host: "host", keyring.Gateway: "gateway"}

func (s *Server) toHost(h fleet.Host) api.Host {
	out := api.Host{
		Resource: api.Resource{ID: h.ID, Name: h.Name, ResourceVersion: h.Version, Generation: 1, CreatedAt: timeOf(h.CreatedNs)},
		Spec:     api.HostSpec{Kind: kindWords[h.Kind], Region: h.Region, Zone: h.Zone},
		Status:   api.HostStatus{Address: h.Address, Version: h.Binary, Namespaces: h.Namespaces, Store: h.Store, LostNamespaces: h.Lost},
	}
	if h.Draining {
		out.Status.Drain = &api.HostDrain{By: h.DrainingBy, At: timeOf(h.DrainingNs)}
	}
	if h.Store != "" {
		out.Status.StoreState = s.hostState(h.ID)
	}
	if c := s.cfg.Observations.Capacity(h.ID); c != (wire.Capacity{}) {
		out.Status.Capacity = &api.HostCapacity{OpenCells: c.OpenCells, MaxCells: c.MaxCells, DiskFreeBytes: c.DiskFree, DiskTotalBytes: c.DiskTotal}
		out.Status.Full = plan.Full(plan.Host{Cells: h.Cells, Capacity: c}, 1)
	}
	if at, ok := s.cfg.Observations.Seen(h.ID); ok {
		text := api.TimeOf(at)
		out.Status.LastSeenAt = &text
	}
	return out
}

// hostState returns api.StoreServing if the host has reported recently, and api.StoreSilent otherwise.
func (s *Server) hostState(id string) string {
	if s.cfg.Observations.Alive(id) {
		return api.StoreServing
	}
	return api.StoreSilent
}

func toTotals(q billing.Totals) api.UsageTotals {
	return api.UsageTotals{
		Reports: q[billing.Reports], RejectedReports: q[billing.RejectedReports], InputTokens: q[billing.InputTokens], OutputTokens: q[billing.OutputTokens],
		CacheCreationTokens: q[billing.CacheCreationTokens], CacheReadTokens: q[billing.CacheReadTokens], CostUSD: money.Total(q[billing.Cost]),
		Requests: q[billing.Requests], RequestBytes: q[billing.RequestBytes], ResponseBytes: q[billing.ResponseBytes],
		JobsEnqueued: q[billing.JobsEnqueued], JobsCompleted: q[billing.JobsCompleted], ActiveSeconds: q[billing.ActiveSeconds],
		StoredByteSeconds: q[billing.StoredByteSeconds], OpenSeconds: q[billing.OpenSeconds],
	}
}

func fromRow(r billing.Row) *store.UsageRow {
	return &store.UsageRow{HourNs: r.HourNs, Queue: r.Queue, Model: r.Model, Provider: r.Provider, Meter: uint32(r.Meter), Quantity: r.Quantity}
}

func fromSpec(spec api.NamespaceSpec) *store.Spec {
	return &store.Spec{
		Region: spec.Region, Tier: spec.Tier, Replicas: uint32(spec.Replicas), Shards: uint32(spec.Shards),
		DeletionProtection: spec.DeletionProtection,
	}
}

// toOverrides converts the overrides of an organisation; nil = none.
func toOverrides(o *billing.Overrides) *api.PlanOverrides {
	if o == nil {
		return nil
	}
	return &api.PlanOverrides{MonthlyFee: toDollars(o.Fee), Minimum: toDollars(o.Minimum), DiscountPercent: o.Discount, Prices: toPlatformPrices(o.Prices)}
}

func toDollars(amount *money.Nano) *string {
	if amount == nil {
		return nil
	}
	return new(amount.String())
}

func toPlanVersion(v billing.PlanVersion) api.PlanVersion {
	return api.PlanVersion{
		Plan: string(v.Plan), PriceVersion: v.Version, From: api.TimeOf(v.BeginsAt),
		MonthlyFee: v.Fee.String(), Minimum: v.Minimum.String(), DiscountPercent: v.Discount, Prices: toPlatformPrices(v.Prices),
	}
}

func toPlatformPrices(prices []billing.PlatformPrice) []api.PlatformPrice {
	all := []api.PlatformPrice{}
	for _, p := range prices {
		meter, _ := billing.MeterNamed(p.Meter) // known, because the prices were checked
		price := api.PlatformPrice{Meter: p.Meter, Unit: billing.Meters[meter].Unit, Per: p.Per, Included: p.Included}
		for _, t := range p.Tiers {
			price.Tiers = append(price.Tiers, api.PlatformTier{UpTo: t.UpTo, UnitPrice: t.Price.String()})
		}
		all = append(all, price)
	}
	return all
}
