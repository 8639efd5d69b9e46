package sim

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// modelName identifies a resource.
type modelName struct {
	kind state.ResourceKind
	name string
}

// declaredOf returns the resources of a kind, by name.
func (m *model) declaredOf(kind state.ResourceKind) (all []*state.Resource) {
	for _, r := range m.resources {
		if r.GetKind() == kind {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *state.Resource) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

// putResource declares a resource, on this shard and then on the others.
func (m *model) putResource(o *op.PutResource) outcome {
	r := proto.Clone(o.GetResource()).(*state.Resource)
	was := m.resources[modelName{r.Kind, r.Name}]
	switch {
	case was != nil && o.GetCreate():
		return outcome{refused: api.Conflict}
	case o.GetIfVersion() != 0 && o.GetIfVersion() != was.GetVersion():
		return outcome{refused: api.PreconditionFailed}
	}
	if code := m.admitResource(r, was); code != "" {
		return outcome{refused: code}
	}
	r.Id, r.Version, r.CreatedNs = o.GetMeta().GetIds()[0], 1, m.clockNs
	if was != nil {
		r.Id, r.Version, r.CreatedNs = was.Id, was.Version+1, was.CreatedNs
	}
	m.toEveryShard(r.Shards, func(to *model) { to.declare(r, o.GetWindows()) })
	return outcome{result: &op.PutResourceResult{Resource: r}}
}

// admitResource returns the code with which the existing resources refuse a new one. It fills in fields that
// the new one leaves unchanged, and resets the failures of a webhook that is enabled again.
func (m *model) admitResource(r, was *state.Resource) api.Code {
	switch r.GetKind() {
	case state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY:
		for _, other := range m.declaredOf(r.GetKind()) {
			if other.GetName() != r.GetName() && other.GetApprovalPolicy().GetLabel() == r.GetApprovalPolicy().GetLabel() {
				return api.Conflict
			}
		}
	case state.ResourceKind_RESOURCE_KIND_ALERT_RULE:
		if m.resources[modelName{state.ResourceKind_RESOURCE_KIND_WEBHOOK, r.GetAlertRule().GetNotify()}] == nil {
			return api.ValidationError
		}
	case state.ResourceKind_RESOURCE_KIND_WEBHOOK:
		h, old := r.Webhook, was.GetWebhook()
		h.PreviousSecret, h.PreviousUntilNs = "", 0
		switch {
		case h.Secret == "" && was == nil:
			return api.ValidationError
		case was == nil:
		case h.Secret == "" || h.Secret == old.Secret:
			h.Secret, h.PreviousSecret, h.PreviousUntilNs = old.Secret, old.PreviousSecret, old.PreviousUntilNs
		case h.SecretOverlapMs > 0:
			h.PreviousSecret, h.PreviousUntilNs = old.Secret, m.clockNs+h.SecretOverlapMs*1e6
		}
		if a := m.attempted[string(was.GetId())]; a != nil && old.GetDisabled() && !h.GetDisabled() {
			a.GivenUp, a.FailingSinceNs = 0, 0
		}
	}
	return ""
}

// deleteResource deletes a resource, on this shard and then on the others.
func (m *model) deleteResource(o *op.DeleteResource) outcome {
	at := modelName{o.GetKind(), o.GetName()}
	switch was := m.resources[at]; {
	case was == nil:
		return outcome{refused: api.NotFound}
	case o.GetIfVersion() != 0 && o.GetIfVersion() != was.Version:
		return outcome{refused: api.PreconditionFailed}
	case m.notifies(was), m.givenToKeys(was):
		return outcome{refused: api.Conflict}
	}
	m.toEveryShard(o.GetShards(), func(to *model) { to.takeBack(at) })
	return outcome{result: &op.DeleteResourceResult{}}
}

// notifies reports whether an alert rule notifies a webhook.
func (m *model) notifies(webhook *state.Resource) bool {
	return webhook.GetKind() == state.ResourceKind_RESOURCE_KIND_WEBHOOK &&
		slices.ContainsFunc(m.declaredOf(state.ResourceKind_RESOURCE_KIND_ALERT_RULE), func(r *state.Resource) bool {
			return r.GetAlertRule().GetNotify() == webhook.GetName()
		})
}

// toEveryShard does something here at once, and on the other shards when it arrives.
func (m *model) toEveryShard(shards uint32, do func(to *model)) {
	do(m)
	for shard := range shards {
		if shard != m.number {
			m.send(shard, traveller{arrive: do})
		}
	}
}

// declare makes a resource known to a shard, with its consequences there.
func (m *model) declare(r *state.Resource, windows []*state.Spent) {
	m.resources[modelName{r.Kind, r.Name}] = r
	switch r.Kind {
	case state.ResourceKind_RESOURCE_KIND_LIMIT_RULE:
		m.rulesChanged(r.GetLimitRule().GetQueue())
	case state.ResourceKind_RESOURCE_KIND_PROVIDER:
		m.relimited[job.ID(r.Id)] = m.clockNs
	case state.ResourceKind_RESOURCE_KIND_BUDGET:
		m.putBudget(r, windows)
	}
}

// takeBack makes a shard forget a resource and the records that belong to it.
func (m *model) takeBack(at modelName) {
	r := m.resources[at]
	if r == nil {
		return
	}
	delete(m.resources, at)
	switch r.Kind {
	case state.ResourceKind_RESOURCE_KIND_LIMIT_RULE:
		m.rulesChanged(r.GetLimitRule().GetQueue())
	case state.ResourceKind_RESOURCE_KIND_PROVIDER:
		delete(m.traffic, job.ID(r.Id))
	case state.ResourceKind_RESOURCE_KIND_BUDGET:
		delete(m.accounts, string(r.Id))
	case state.ResourceKind_RESOURCE_KIND_ALERT_RULE:
		delete(m.alerts, string(r.Id))
	case state.ResourceKind_RESOURCE_KIND_WEBHOOK:
		delete(m.attempted, string(r.Id))
	}
}

// compareResources compares a store's resources with the model's.
func (m *model) compareResources(v *state.Snapshot) error {
	resources, err := v.ResourceIndex()
	if err != nil {
		return err
	}
	n := 0
	for kind := range state.ResourceKind_name {
		for _, r := range resources.Resources(state.ResourceKind(kind)) {
			n++
			if want := m.resources[modelName{r.Kind, r.Name}]; !proto.Equal(r, want) || !proto.Equal(r, resources.ResourceByID([16]byte(r.Id))) {
				return fmt.Errorf("resource %q is %v in the store, %v in the model", r.Name, r, want)
			}
		}
	}
	if n != len(m.resources) {
		return fmt.Errorf("the store has %d resources, the model %d", n, len(m.resources))
	}
	return nil
}

// declarations returns the draws of resources. Each draws the kind, the name and the contents.
func declarations() []func(*workload) *op.PutResource {
	return []func(*workload) *op.PutResource{
		(*workload).limitRule, (*workload).provider, (*workload).policy, (*workload).alertRule, (*workload).webhook, (*workload).role,
		(*workload).price, (*workload).budget, (*workload).budget,
	}
}

// putResource draws a resource on the first shard, which decides about resources. On the others it draws a
// delivery, since resources arrive there.
func (w *workload) putResource() op.Op {
	if w.sh.number != 0 {
		return w.deliver()
	}
	o := pick(w, declarations())(w)
	o.Meta = w.meta()
	o.Meta.Ids = [][]byte{w.bytes(16)}
	o.Resource.Shards = uint32(len(w.sh.shards))
	o.Create = w.chance(6)
	if was := w.m.resources[modelName{o.Resource.Kind, o.Resource.Name}]; w.chance(6) {
		o.IfVersion = max(was.GetVersion(), 1) + uint64(w.rng.IntN(2))
	}
	return o
}

// deleteResource draws mostly an existing resource.
func (w *workload) deleteResource() op.Op {
	if w.sh.number != 0 {
		return w.deliver()
	}
	r := w.someDeclared(pick(w, declarations())(w).Resource.Kind)
	o := &op.DeleteResource{Meta: w.meta(), Kind: r.Kind, Name: r.Name, Shards: uint32(len(w.sh.shards))}
	if was := w.m.resources[modelName{o.Kind, o.Name}]; w.chance(6) {
		o.IfVersion = max(was.GetVersion(), 1) + uint64(w.rng.IntN(2))
	}
	return o
}

// someDeclared draws a resource of a kind, or one that does not exist.
func (w *workload) someDeclared(kind state.ResourceKind) *state.Resource {
	if all := w.m.declaredOf(kind); len(all) > 0 && !w.chance(10) {
		return pick(w, all)
	}
	return &state.Resource{Kind: kind, Name: "nowhere", Id: w.bytes(16), Version: 1}
}

// oneOf draws one of few names for a resource.
func (w *workload) oneOf() string { return fmt.Sprintf("one-%d", w.rng.IntN(3)) }
