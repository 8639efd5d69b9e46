package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// The test repeats the bounds of this feature level that decide in Apply, because replicas must have the same
// ones.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	want := limits{orgs: 10_000, namespaces: 1_000, hosts: 1_000, stores: 100, keys: 1_000, roles: 100, signingKeys: 16, idempotency: 100_000,
		credits: 1_000, corrections: 1_000, sole: 1_000_000_000_000, raises: 100, ownRaisePercent: 100,
		aside: AsideTotals{Frames: 1_000, Bytes: 256 << 20}, namespaceAside: AsideTotals{Frames: 100, Bytes: 32 << 20}, ahead: AsideTotals{Frames: 500, Bytes: 128 << 20}}
	if got := newWorld(t).limits; got != want {
		t.Errorf("%+v, want %+v; a change needs a new feature level", got, want)
	}
}

// At a bound one more is refused and nothing else changes. A deletion makes room.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limits = limits{orgs: 2, namespaces: 2, hosts: 2, keys: 2, roles: 2, idempotency: 1}
	w.ok(newOrg("a"), newOrg("b"))
	w.refused(api.Conflict, newOrg("c"))
	w.ok(newHost("h1"), newGateway("g1"))
	w.refused(api.Conflict, newHost("h2"))
	w.ok(newNamespace("org_a", "x"), newNamespace("org_a", "y"), newNamespace("org_b", "z"))
	w.refused(api.Conflict, newNamespace("org_a", "w"))
	w.ok(deletion("x"))
	w.refused(api.Conflict, newNamespace("org_a", "w")) // it is there until it is gone
	w.ok(removal("x"), newNamespace("org_a", "w"))

	ending := newKey(keyring.Namespace, "ns_y", "k1")
	ending.Credential.ExpiresNs = w.clockNs + int64(time.Minute)
	w.ok(ending, newKey(keyring.Namespace, "ns_y", "k2"), newKey(keyring.Org, "org_a", "t1"))
	w.refused(api.Conflict, newKey(keyring.Namespace, "ns_y", "k3"))
	overlapping := &RotateCredential{Meta: by("t"), OldId: "k2", NewId: "k3", NewHash: hash("k3"), OldExpiresNs: w.clockNs + 1}
	w.refused(api.Conflict, overlapping)
	overlapping.OldExpiresNs = w.clockNs // without overlap there is room
	w.ok(overlapping)
	w.pass(time.Minute)
	w.ok(newKey(keyring.Namespace, "ns_y", "k4")) // k1 has ended
	if _, ok := w.credential("k1"); ok {
		t.Error("what had to make room is still there")
	}
	w.refused(api.Conflict, newKey(keyring.Namespace, "ns_y", "k5"))

	w.ok(putRole("ns_y", "r1", true, "job.read"), putRole("ns_y", "r2", true, "job.read"), putRole("ns_z", "r1", true, "job.read"))
	w.refused(api.Conflict, putRole("ns_y", "r3", true, "job.read"))
	w.ok(putRole("ns_y", "r2", false, "queue.read"), dropRole("ns_y", "r1"), putRole("ns_y", "r3", true, "job.read"))
}

// Every field that people or processes fill in has a bound. The longest value is accepted and a longer one
// refused, and all faults are reported together.
func TestValidate(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("a", n) }
	many := func(n int, s string) []string { return strings.Split(strings.Repeat(s+" ", n)[:n*(len(s)+1)-1], " ") }
	org := func(change func(*CreateOrg)) op { o := newOrg("a"); change(o); return o }
	ns := func(change func(*CreateNamespace)) op { o := newNamespace("org_a", "a"); change(o); return o }
	key := func(change func(*Credential)) op {
		o := newKey(keyring.Namespace, "ns_a", "k")
		change(o.Credential)
		return o
	}
	host := func(change func(*CreateHost)) op { o := newHost("a"); change(o); return o }
	use := func(change func(*ApplyUsage)) op {
		o := frame("ns_a", 1, 1, usageRow("q", "m", 1))
		change(o)
		return o
	}
	row := func(change func(*Refusal)) op { o := refusals("b", 1); change(o.Refusals[0]); return o }
	refusal := func(change func(*SetAsideUsage)) op {
		o := aside("a", 1, 1)
		change(o)
		return o
	}
	rows := func(n int) (all []*UsageRow) {
		for range n {
			all = append(all, usageRow("q", "m", 1))
		}
		return all
	}
	for _, c := range []struct {
		field    string
		ok, over func() op
	}{
		{"id", func() op { return org(func(o *CreateOrg) { o.Id = long(MaxID) }) }, func() op { return org(func(o *CreateOrg) { o.Id = long(MaxID + 1) }) }},
		{"id", nil, func() op { return org(func(o *CreateOrg) { o.Id = "a b" }) }},
		{"name", func() op { return org(func(o *CreateOrg) { o.Name = long(MaxName) }) }, func() op { return org(func(o *CreateOrg) { o.Name = long(MaxName + 1) }) }},
		{"name", func() op { return ns(func(o *CreateNamespace) { o.Name = "a-0" }) }, func() op { return ns(func(o *CreateNamespace) { o.Name = "0a" }) }},
		{"name", nil, func() op { return ns(func(o *CreateNamespace) { o.Name = "Prod" }) }},
		{"meta.principal", func() op { return org(func(o *CreateOrg) { o.Meta.Principal = long(MaxPrincipal) }) }, func() op { return org(func(o *CreateOrg) { o.Meta.Principal = long(MaxPrincipal + 1) }) }},
		{"meta.trace", func() op { return org(func(o *CreateOrg) { o.Meta.Trace = long(MaxTrace) }) }, func() op { return org(func(o *CreateOrg) { o.Meta.Trace = long(MaxTrace + 1) }) }},
		{"Idempotency-Key", func() op { return withKey(newOrg("a"), long(MaxIdempotencyKey)) }, func() op { return withKey(newOrg("a"), long(MaxIdempotencyKey+1)) }},
		{"meta.idempotency.request_hash", nil, func() op { return org(func(o *CreateOrg) { withKey(o, "k").Meta.Idempotency.RequestHash = nil }) }},
		{"spec", nil, func() op { return ns(func(o *CreateNamespace) { o.Spec = nil }) }},
		{"spec.region", func() op { return ns(func(o *CreateNamespace) { o.Spec.Region = long(MaxRegion) }) }, func() op { return ns(func(o *CreateNamespace) { o.Spec.Region = long(MaxRegion + 1) }) }},
		{"spec.tier", func() op { return ns(func(o *CreateNamespace) { o.Spec.Tier = "dedicated" }) }, func() op { return ns(func(o *CreateNamespace) { o.Spec.Tier = "gold" }) }},
		{"spec.replicas", func() op { return ns(func(o *CreateNamespace) { o.Spec.Replicas = 5 }) }, func() op { return ns(func(o *CreateNamespace) { o.Spec.Replicas = 2 }) }},
		{"spec.shards", func() op {
			return ns(func(o *CreateNamespace) { o.Spec.Shards, o.Incarnations = MaxShards, founding(MaxShards).Incarnations })
		}, func() op { return ns(func(o *CreateNamespace) { o.Spec.Shards = MaxShards + 1 }) }},
		{"credential", nil, func() op { return &CreateCredential{} }},
		{"credential.kind", nil, func() op { return key(func(c *Credential) { c.Kind = "admin" }) }},
		{"credential.name", func() op { return key(func(c *Credential) { c.Name = long(tenancy.MaxKeyName) }) }, func() op { return key(func(c *Credential) { c.Name = long(tenancy.MaxKeyName + 1) }) }},
		{"credential.name", nil, func() op { return key(func(c *Credential) { c.Name = "two\nlines" }) }},
		{"credential.roles", func() op { return key(func(c *Credential) { c.Roles = many(MaxRoles, "worker") }) }, func() op { return key(func(c *Credential) { c.Roles = many(MaxRoles+1, "worker") }) }},
		{"credential.roles", nil, func() op { return key(func(c *Credential) { c.Roles = nil }) }},
		{"credential.roles[0]", nil, func() op { return key(func(c *Credential) { c.Roles = []string{"cloud-operator"} }) }},
		{"credential.roles[0]", func() op { return key(func(c *Credential) { c.Roles = []string{long(tenancy.MaxRoleName)} }) }, func() op { return key(func(c *Credential) { c.Roles = []string{long(tenancy.MaxRoleName + 1)} }) }},
		{"credential.roles[0]", nil, func() op { return key(func(c *Credential) { c.Kind, c.Roles = "org", []string{"auditor"} }) }},
		{"name", func() op { return putRole("ns_a", long(tenancy.MaxRoleName), true, "job.read") }, func() op { return putRole("ns_a", long(tenancy.MaxRoleName+1), true, "job.read") }},
		{"name", nil, func() op { return putRole("ns_a", "host", true, "job.read") }},
		{"namespace", nil, func() op { return putRole("", "r", true, "job.read") }},
		{"permissions", func() op { return putRole("ns_a", "r", true, many(9, "job.read")...) }, func() op { return putRole("ns_a", "r", true, many(10, "job.read")...) }},
		{"permissions", nil, func() op { return putRole("ns_a", "r", true) }},
		{"permissions[0]", nil, func() op { return putRole("ns_a", "r", true, "org.read") }},
		{"name", nil, func() op { return dropRole("ns_a", "admin") }},
		{"credential.queue_scope", func() op { return key(func(c *Credential) { c.QueueScope = many(tenancy.MaxQueueScope, "q*") }) }, func() op { return key(func(c *Credential) { c.QueueScope = many(tenancy.MaxQueueScope+1, "q*") }) }},
		{"credential.queue_scope[0]", nil, func() op { return key(func(c *Credential) { c.QueueScope = []string{"a b"} }) }},
		{"credential.hash", nil, func() op { return key(func(c *Credential) { c.Hash = c.Hash[1:] }) }},
		{"credential.expires_ns", nil, func() op { return key(func(c *Credential) { c.ExpiresNs = -1 }) }},
		{"credential.owner", nil, func() op { return key(func(c *Credential) { c.Owner = "" }) }},
		{"credential.owner", nil, func() op { return key(func(c *Credential) { c.Kind, c.Roles = "op", []string{"cloud-operator"} }) }},
		{"credential", nil, func() op { return host(func(o *CreateHost) { o.Credential.Owner = "host_b" }) }},
		{"kind", nil, func() op {
			return host(func(o *CreateHost) { o.Kind, o.Credential.Kind, o.Credential.Roles = "org", "org", []string{"admin"} })
		}},
		{"zone", func() op { return host(func(o *CreateHost) { o.Zone = long(MaxZone) }) }, func() op { return host(func(o *CreateHost) { o.Zone = long(MaxZone + 1) }) }},
		{"zone", nil, func() op { o := newGateway("a"); o.Zone = "rack-1"; return o }},
		{"address", func() op { return join("a", long(MaxAddress)) }, func() op { return join("a", long(MaxAddress+1)) }},
		{"version", nil, func() op { return &JoinHost{Id: "h", Version: long(MaxVersion + 1)} }},
		{"store", nil, func() op { return &JoinHost{Id: "h", Store: long(MaxID + 1)} }},
		{"run", nil, func() op { return &JoinHost{Id: "h", Store: "store_a", Run: -1} }},
		{"raft", func() op { return &JoinHost{Id: "h", Raft: long(MaxRaftAddress)} }, func() op { return &JoinHost{Id: "h", Raft: long(MaxRaftAddress + 1)} }},
		{"configurations", nil, func() op { return &SettleNamespace{Id: "a", Generation: 1} }},
		{"configurations", func() op { return settle("a", make([]uint64, MaxShards)...) }, func() op { return settle("a", make([]uint64, MaxShards+1)...) }},
		{"run", nil, func() op { return &JoinHost{Id: "h", Run: 1} }},
		{"rows", func() op { return use(func(o *ApplyUsage) { o.Rows = rows(billing.MaxFrameRows) }) }, func() op { return use(func(o *ApplyUsage) { o.Rows = rows(billing.MaxFrameRows + 1) }) }},
		{"rows", nil, func() op { return use(func(o *ApplyUsage) { o.Rows = nil }) }},
		{"refusals", func() op { return refusals("b", MaxRefusals) }, func() op { return refusals("b", MaxRefusals+1) }},
		{"refusals", nil, func() op { return refusals("b", 0) }},
		{"batch", nil, func() op { return refusals("", 1) }},
		{"refusals[0].count", nil, func() op { return row(func(r *Refusal) { r.Count = 0 }) }},
		{"refusals[0].org", func() op { return row(func(r *Refusal) { r.Org = long(MaxID) }) }, func() op { return row(func(r *Refusal) { r.Org = long(MaxID + 1) }) }},
		{"refusals[0].action", func() op { return row(func(r *Refusal) { r.Action = long(MaxAction) }) }, func() op { return row(func(r *Refusal) { r.Action = long(MaxAction + 1) }) }},
		{"refusals[0].code", func() op { return row(func(r *Refusal) { r.Code = long(MaxCode) }) }, func() op { return row(func(r *Refusal) { r.Code = long(MaxCode + 1) }) }},
		{"refusals[0].principal", func() op { return row(func(r *Refusal) { r.Principal = long(MaxPrincipal) }) }, func() op { return row(func(r *Refusal) { r.Principal = long(MaxPrincipal + 1) }) }},
		{"rows[0].queue", func() op { return use(func(o *ApplyUsage) { o.Rows[0].Queue = long(MaxUsageWord) }) }, func() op { return use(func(o *ApplyUsage) { o.Rows[0].Queue = long(MaxUsageWord + 1) }) }},
		{"rows[0].hour_ns", nil, func() op { return use(func(o *ApplyUsage) { o.Rows[0].HourNs++ }) }},
		{"rows[0].quantity", nil, func() op { return use(func(o *ApplyUsage) { o.Rows[0].Quantity = -1 }) }},
		{"rows[0].quantity", nil, func() op { return use(func(o *ApplyUsage) { o.Rows[0].Meter, o.Rows[0].ResponseBytes = 0, -1 }) }},
		{"rows[0].meter", func() op { return use(func(o *ApplyUsage) { o.Rows[0].Meter = uint32(len(billing.Meters) - 1) }) }, func() op { return use(func(o *ApplyUsage) { o.Rows[0].Meter = uint32(len(billing.Meters)) }) }},
		{"stream", func() op { return use(func(o *ApplyUsage) { o.Stream = long(MaxStream) }) }, func() op { return use(func(o *ApplyUsage) { o.Stream = long(MaxStream + 1) }) }},
		{"from", nil, func() op { return use(func(o *ApplyUsage) { o.From = 0 }) }},
		{"frame", func() op { return refusal(func(o *SetAsideUsage) { o.Frame = make([]byte, MaxAsideFrame) }) }, func() op { return refusal(func(o *SetAsideUsage) { o.Frame = make([]byte, MaxAsideFrame+1) }) }},
		{"frame", nil, func() op { return refusal(func(o *SetAsideUsage) { o.Frame = nil }) }},
		{"reason", func() op { return refusal(func(o *SetAsideUsage) { o.Reason = long(MaxAsideReason) }) }, func() op { return refusal(func(o *SetAsideUsage) { o.Reason = long(MaxAsideReason + 1) }) }},
		{"code", nil, func() op { return refusal(func(o *SetAsideUsage) { o.Code = "" }) }},
		{"seq", nil, func() op { return &RemoveAsideUsage{} }},
		{"stream", nil, func() op { return refusal(func(o *SetAsideUsage) { o.Stream = long(MaxStream + 1) }) }},
		{"from", nil, func() op { return refusal(func(o *SetAsideUsage) { o.To = 1 << 63 }) }},
		{"from", nil, func() op { return use(func(o *ApplyUsage) { o.To = 1 << 63 }) }},
		{"old_expires_ns", nil, func() op { return &RotateCredential{OldId: "a", NewId: "b", NewHash: hash("b")} }},
		{"new_id", nil, func() op { return &RotateCredential{OldId: "a", NewId: "a", NewHash: hash("b"), OldExpiresNs: 1} }},
		{"generation", nil, func() op { return &SettleNamespace{Id: "a", Configurations: []uint64{1}} }},
		{"incarnations", func() op { return founding(MaxShards) }, func() op { return founding(MaxShards + 1) }},
		{"incarnations", func() op { return founding(1) }, func() op { return founding(0) }},
		{"incarnations[0]", nil, func() op { return &FoundNamespace{Id: "a", Generation: 1, Incarnations: [][]byte{hash("a")}} }},
		{"incarnations", nil, func() op { return ofBefore(newNamespace("org_acme", "a")) }},
		{"stores", nil, func() op { return &PlaceNamespace{Id: "a", Generation: 1} }},
		{"stores", func() op { return place("a", "1", "2", "3", "4", "5") }, func() op { return place("a", "1", "2", "3", "4", "5", "6", "7") }},
		{"stores", func() op { return place("a", "1", "2", "3") }, func() op { return place("a", "1", "2") }},
		{"stores[2]", nil, func() op { return place("a", "1", "2", "1") }},
		{"stores[0]", nil, func() op { return place("a", "/") }},
		{"stores", nil, func() op { return &PlaceNamespace{Id: "a", Generation: 1, HostId: "host_a"} }},
		{"incarnations", func() op { return replacing(MaxShards) }, func() op { return replacing(MaxShards + 1) }},
		{"expect_version", nil, func() op { return &UpdateNamespace{Id: "a", ExpectVersion: -1} }},
		{"replicas", func() op { return replicas("a", MaxReplicas) }, func() op { return replicas("a", MaxReplicas+1) }},
		{"replicas", func() op { return replicas("a", 3) }, func() op { return replicas("a", 0) }},
		{"operation_id", nil, func() op { return &DeleteNamespace{Id: "a"} }},
		{"seed", nil, func() op { return &AddSigningKey{Id: "a", Seed: []byte("short")} }},
		{"id", nil, func() op { return &RevokeCredential{} }},
		{"id", nil, func() op { return &RemoveNamespace{Generation: 1} }},
	} {
		if c.ok != nil {
			if err := c.ok().Validate(); err != nil {
				t.Errorf("%s at its bound: %v", c.field, err)
			}
		}
		o := c.over()
		err := o.Validate()
		if refused(err, api.ValidationError) != nil {
			t.Errorf("%s of %T %v: %v", c.field, o, o, err)
			continue
		}
		faults, _ := err.(*api.Error).Details["fields"].([]api.FieldError)
		if len(faults) != 1 || faults[0].Field != c.field {
			t.Errorf("%s of %T: faults are %v", c.field, o, faults)
		}
	}
	err := (&CreateNamespace{Id: "?", Name: "?", Org: "?", OperationId: "?"}).Validate()
	if faults, _ := err.(*api.Error).Details["fields"].([]api.FieldError); len(faults) != 5 { // without a spec there are no shards
		t.Errorf("the faults of an op that is all wrong are %v", faults)
	}
}

// A page never has more rows than MaxPage.
func TestPages(t *testing.T) {
	t.Parallel()
	if page(MaxPage+1) != MaxPage || page(MaxPage) != MaxPage || page(-1) != 0 {
		t.Error("a page has the wrong length")
	}
	w := newWorld(t)
	var ops []op
	for i := range 5 {
		ops = append(ops, newOrg(fmt.Sprintf("o%d", i)), newNamespace("org_o0", fmt.Sprintf("n%d", i)))
	}
	w.ok(ops...)
	s := w.store()
	var orgs, namespaces, operations []string
	for after := tenancy.OrgID(""); ; {
		all, err := s.Orgs(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 {
			break
		}
		for _, o := range all {
			orgs, after = append(orgs, fmt.Sprint(o.Name, o.Namespaces)), o.ID
		}
	}
	for after := tenancy.NamespaceID(""); ; {
		all, err := s.Namespaces(t.Context(), "org_o0", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 {
			break
		}
		for _, n := range all {
			namespaces, after = append(namespaces, n.Name), n.ID
		}
	}
	for before := ""; ; {
		all, err := s.Operations(t.Context(), "org_o0", before, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 {
			break
		}
		for _, o := range all {
			operations, before = append(operations, o.Name), o.ID
		}
	}
	if got := fmt.Sprint(orgs, namespaces, operations); got != "[o05 o10 o20 o30 o40] [n0 n1 n2 n3 n4] [n4 n3 n2 n1 n0]" {
		t.Errorf("pages hold %s", got)
	}
}

// Resources are found by id and by name, in their own organisation only.
func TestFinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("o0"), newOrg("o1"), newNamespace("org_o0", "n1"), newNamespace("org_o0", "n2"), newNamespace("org_o1", "n3"))
	s := w.store()
	if _, err := s.Operations(t.Context(), "org_o1", "op_create_n1", 2); refused(err, api.NotFound) != nil {
		t.Errorf("another organisation's operation: %v", err)
	}
	for _, id := range []string{"org_none", "none"} {
		if _, err := s.Org(t.Context(), id); refused(err, api.NotFound) != nil {
			t.Error(err)
		}
	}
	if o, err := s.Org(t.Context(), "o1"); err != nil || o.ID != "org_o1" {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := s.Operation(t.Context(), "none"); refused(err, api.NotFound) != nil {
		t.Error(err)
	}
	// An organisation does not find another's namespace, by id or name.
	for _, id := range []string{"ns_n1", "n1"} {
		if _, err := s.Namespace(t.Context(), "org_o1", id); refused(err, api.NotFound) != nil {
			t.Error(err)
		}
		if n, err := s.Namespace(t.Context(), "org_o0", id); err != nil || n.ID != "ns_n1" {
			t.Errorf("%+v, %v", n, err)
		}
	}
	if n, err := s.Namespace(t.Context(), "", "ns_n1"); err != nil || n.ID != "ns_n1" {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := s.Namespace(t.Context(), "", "n1"); refused(err, api.NotFound) != nil {
		t.Error(err)
	}
	w.ok(newHost("h"), start("h", "h"), place("n1", "h"), found("n1"), settle("n1"))
	open, err := s.Unsettled(t.Context(), nil)
	if err != nil || len(open) != 2 || open[1].Name != "n3" {
		t.Errorf("unsettled are %+v, %v", open, err)
	}
}

// replacing returns a new placement with the incarnations of so many shards.
func replacing(shards int) *PlaceNamespace {
	return &PlaceNamespace{Id: "ns_a", Generation: 1, Stores: []string{"store_h1"}, Incarnations: founding(shards).Incarnations}
}
