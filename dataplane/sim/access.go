package sim

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

const kindRole = state.ResourceKind_RESOURCE_KIND_ROLE

func (m *model) createKey(o *op.CreateKey) outcome {
	k := proto.Clone(o.GetKey()).(*state.Key)
	if was := m.keys[k.GetId()]; was != nil && bytes.Equal(was.GetHash(), k.GetHash()) {
		return outcome{result: &op.CreateKeyResult{Key: was}} // this op's own earlier effect
	} else if was != nil || o.GetFirst() && m.secured {
		return outcome{refused: api.Conflict}
	}
	if m.isAnotherCaller(o.GetMeta(), o.GetJudgedVersion()) {
		return outcome{refused: api.Conflict}
	}
	if !m.haveRoles(k.GetRoles()) {
		return outcome{refused: api.ValidationError}
	}
	k.CreatedNs = m.clockNs
	m.keys[k.GetId()], m.secured = k, true
	return outcome{result: &op.CreateKeyResult{Key: k}}
}

func (m *model) revokeKey(o *op.RevokeKey) outcome {
	switch k := m.keys[o.GetId()]; {
	case k == nil:
		return outcome{refused: api.NotFound}
	case o.GetJudgedVersion() != 0 && o.GetJudgedVersion() != k.GetChanges()+1, m.isAnotherCaller(o.GetMeta(), o.GetCallerVersion()):
		return outcome{refused: api.Conflict}
	case o.GetSpareLast() && m.isLast(k):
		return outcome{refused: api.Conflict}
	}
	delete(m.keys, o.GetId())
	return outcome{result: &op.RevokeKeyResult{}}
}

func (m *model) setKey(o *op.SetKey) outcome {
	was := m.keys[o.GetId()]
	if was == nil {
		return outcome{refused: api.NotFound}
	}
	if o.GetIfVersion() != 0 && o.GetIfVersion() != was.GetChanges()+1 {
		return outcome{refused: api.PreconditionFailed}
	}
	if o.GetJudgedVersion() != 0 && o.GetJudgedVersion() != was.GetChanges()+1 || m.isAnotherCaller(o.GetMeta(), o.GetCallerVersion()) {
		return outcome{refused: api.Conflict}
	}
	for _, name := range o.GetRoles() {
		if !slices.Contains(was.GetRoles(), name) && !m.haveRoles([]string{name}) {
			return outcome{refused: api.ValidationError}
		}
	}
	k := proto.Clone(was).(*state.Key)
	k.Name, k.Roles, k.QueueScope, k.Enabled, k.ExpiresNs = o.GetName(), o.GetRoles(), o.GetQueueScope(), o.GetEnabled(), o.GetExpiresNs()
	if m.isLast(was) && !isAdministrator(k) {
		return outcome{refused: api.Conflict}
	}
	k.Changes++
	m.keys[k.Id] = k
	return outcome{result: &op.SetKeyResult{Key: k}}
}

func (m *model) rotateKey(o *op.RotateKey) outcome {
	was := m.keys[o.GetId()]
	if was == nil {
		return outcome{refused: api.NotFound}
	}
	if o.GetJudgedVersion() != 0 && o.GetJudgedVersion() != was.GetChanges()+1 || m.isAnotherCaller(o.GetMeta(), o.GetCallerVersion()) {
		return outcome{refused: api.Conflict}
	}
	k := proto.Clone(was).(*state.Key)
	k.Changes++
	k.Hash, k.PreviousHash, k.PreviousUntilNs = o.GetHash(), nil, 0
	if o.GetOverlapNs() > 0 {
		k.PreviousHash, k.PreviousUntilNs = was.GetHash(), m.clockNs+o.GetOverlapNs()
	}
	m.keys[k.Id] = k
	return outcome{result: &op.RotateKeyResult{Key: k}}
}

// isAnotherCaller reports whether the calling key is gone or has changed since the proposer authorised it.
func (m *model) isAnotherCaller(meta *op.Meta, judged uint64) bool {
	by := m.keys[meta.GetPrincipal()]
	return judged != 0 && (by == nil || judged != by.GetChanges()+1)
}

// haveRoles reports whether every role is built in or declared.
func (m *model) haveRoles(roles []string) bool {
	return !slices.ContainsFunc(roles, func(name string) bool {
		return !slices.Contains(tenancy.Roles(), tenancy.Role(name)) && m.resources[modelName{kindRole, name}] == nil
	})
}

// isLast reports whether a key is the only administrator.
func (m *model) isLast(k *state.Key) bool {
	others := 0
	for _, other := range m.keys {
		if other.Id != k.Id && isAdministrator(other) {
			others++
		}
	}
	return isAdministrator(k) && others == 0
}

func isAdministrator(k *state.Key) bool {
	return k.GetEnabled() && k.GetExpiresNs() == 0 && len(k.GetQueueScope()) == 0 && slices.Contains(k.GetRoles(), "admin")
}

// givenToKeys reports whether a resource is a role that a key has.
func (m *model) givenToKeys(r *state.Resource) bool {
	if r.GetKind() != kindRole {
		return false
	}
	for _, k := range m.keys {
		if slices.Contains(k.GetRoles(), r.GetName()) {
			return true
		}
	}
	return false
}

// compareKeys compares the number of keys in the store with the model's. It need not compare their contents,
// because the results of ops contain them.
func (m *model) compareKeys(v *state.Snapshot) error {
	if n := v.Head().GetKeyRecords(); n != uint64(len(m.keys)) {
		return fmt.Errorf("the store has %d keys, the model %d", n, len(m.keys))
	}
	return nil
}

func (w *workload) keyID() string { return fmt.Sprintf("key%d", w.rng.IntN(6)) }

// someRoles draws roles for a key. One of them may not be declared.
func (w *workload) someRoles() []string {
	return pick(w, [][]string{{"admin"}, {"worker"}, {"worker", "one-0"}, {"one-1"}, {"admin", "one-2"}})
}

func (w *workload) createKey() op.Op {
	o := &op.CreateKey{Meta: w.meta(), First: w.chance(3), Key: &state.Key{
		Id: w.keyID(), Name: "a key", Roles: w.someRoles(), Hash: w.bytes(32), Enabled: true,
	}}
	if w.chance(3) {
		o.Meta.Principal, o.JudgedVersion = w.keyID(), 1+uint64(w.rng.IntN(3))
	}
	return o
}

func (w *workload) revokeKey() op.Op {
	o := &op.RevokeKey{Meta: w.meta(), Id: w.keyID(), SpareLast: w.chance(2)}
	if w.chance(3) {
		o.JudgedVersion = 1 + uint64(w.rng.IntN(3))
	}
	if w.chance(3) {
		o.Meta.Principal, o.CallerVersion = w.keyID(), 1+uint64(w.rng.IntN(3))
	}
	return o
}

func (w *workload) setKey() op.Op {
	o := &op.SetKey{Meta: w.meta(), Id: w.keyID(), Name: "another name", Roles: w.someRoles(), Enabled: !w.chance(4)}
	if w.chance(4) {
		o.QueueScope = []string{"q*"}
	}
	if w.chance(4) {
		o.ExpiresNs = w.m.clockNs + 1
	}
	if w.chance(3) {
		o.IfVersion = 1 + uint64(w.rng.IntN(3))
	}
	if w.chance(3) {
		o.JudgedVersion = 1 + uint64(w.rng.IntN(3))
	}
	if w.chance(3) {
		o.Meta.Principal, o.CallerVersion = w.keyID(), 1+uint64(w.rng.IntN(3))
	}
	return o
}

func (w *workload) rotateKey() op.Op {
	o := &op.RotateKey{Meta: w.meta(), Id: w.keyID(), Hash: w.bytes(32), OverlapNs: int64(w.rng.IntN(2)) * 1e9}
	if w.chance(3) {
		o.JudgedVersion = 1 + uint64(w.rng.IntN(3))
	}
	if w.chance(3) {
		o.Meta.Principal, o.CallerVersion = w.keyID(), 1+uint64(w.rng.IntN(3))
	}
	return o
}

func (w *workload) role() *op.PutResource {
	r := &state.Role{Permissions: []string{string(pick(w, tenancy.DataPlanePermissions()))}}
	return &op.PutResource{Resource: &state.Resource{Kind: kindRole, Name: w.oneOf(), Role: r}}
}
