package host

import (
	"crypto/rand"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// homeShard is the shard that holds the API keys and all else that belongs to the whole namespace.
const homeShard = 0

// MaxShards bounds the shards of a namespace. Each has a log, a store and a view.
const MaxShards = 64

// Spec says how a namespace is opened.
type Spec struct {
	// Shards is the number of shards that the namespace has for ever; 0 = the number it was founded with, or
	// 1 if it is new.
	Shards int
	// Join holds, by shard, the incarnations of the groups that a new namespace joins here; nil = it founds
	// them. Data that is already on disk is opened as it is, unless its founding was cut short: the groups that
	// others serve were not founded here.
	Join []entry.Incarnation
	// Opened says that the namespace is known to have been open on this host, so that it is opened as it is
	// on disk and never founded.
	Opened bool
	// Incarnations holds, by shard, the incarnations that the groups have or are founded with; nil = those on
	// disk, and random ones for a new namespace. The number of incarnations is the number of shards.
	Incarnations []entry.Incarnation
	// Refound holds, by shard, the incarnations of an earlier history. A copy of that history becomes the beginning of
	// the one of Incarnations before it is opened. nil = no copy is refounded.
	Refound []entry.Incarnation
}

func (s Spec) check(ns tenancy.NamespaceID) error {
	switch {
	case s.Shards < 0 || s.Shards > MaxShards:
		return api.Errorf(api.ValidationError, "namespace %s cannot have %d shards: give it 1 to %d", ns, s.Shards, MaxShards)
	case len(s.Join) > 0 && len(s.Join) != s.Shards:
		return api.Errorf(api.ValidationError, "namespace %s is to have %d shards and to join the groups of %d: name one group for each shard", ns, s.Shards, len(s.Join))
	case len(s.Incarnations) > MaxShards || s.Shards > 0 && len(s.Incarnations) > 0 && len(s.Incarnations) != s.Shards:
		return api.Errorf(api.ValidationError, "namespace %s cannot have %d incarnations: give one for each of its shards, which are 1 to %d", ns, len(s.Incarnations), MaxShards)
	}
	return nil
}

// settleShards decides how many shards a namespace is opened with and which groups they join. The number of
// shards never changes: a queue's shard follows from its name and this number, so that with another number
// queues would seem to be empty. settleShards refuses a namespace whose data on disk is incomplete: see
// whole. It deletes an empty directory of replaced groups: see discardReplaced. It refounds a copy of spec.Refound.
func (h *Host) settleShards(ns tenancy.NamespaceID, spec Spec) (Spec, founding, error) {
	if spec.Shards == 0 {
		spec.Shards = len(spec.Incarnations)
	}
	found, opened, err := h.whole(ns, spec)
	if err == nil && spec.Refound != nil {
		err = h.refound(ns, found, spec)
	}
	if err == nil && !spec.Opened && spec.Incarnations != nil {
		var discarded bool
		if discarded, err = h.discardReplaced(ns, found, spec.Incarnations); discarded && err == nil {
			found = founding{}
		}
	}
	if err != nil {
		return Spec{}, founding{}, fmt.Errorf("the data of namespace %s: %w", ns, err)
	}
	if found.Shards == 0 {
		spec.Shards = max(spec.Shards, 1)
		found = founding{Namespace: ns, Birth: rand.Text(), Shards: spec.Shards, Join: spec.Join}
		if spec.Join != nil {
			spec.Incarnations = nil // Join names them
		}
		return spec, found, nil
	}
	if spec.Shards != 0 && spec.Shards != found.Shards {
		return Spec{}, founding{}, api.Errorf(api.Conflict, "namespace %s was founded with %d shards and cannot be opened with %d, for a queue's shard follows from their number: start with %d, or found another and move the jobs there",
			ns, found.Shards, spec.Shards, found.Shards)
	}
	spec.Shards = found.Shards
	if spec.Join == nil {
		spec.Join = found.Join
	}
	switch {
	case spec.Incarnations == nil || spec.Join == nil:
	case found.Complete: // each shard has its group, and needs a transport only if it has other members
		spec.Join = nil
	default:
		spec.Incarnations = nil
	}
	found.known = opened.Birth == found.Birth
	return spec, found, nil
}
