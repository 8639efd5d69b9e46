package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/durable"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// homeShard is where API keys and what else is the whole namespace's lies.
const homeShard = 0

// MaxShards bounds the shards of a namespace. Each is a log, a store and a view.
const MaxShards = 64

// Spec is what a namespace is opened as.
type Spec struct {
	// Shards is how many the namespace has, for ever; 0 = as many as it has, and a
	// new one gets one.
	Shards int
	// Join is, by shard, the incarnation of the groups that a new namespace here
	// joins; nil = it founds them. What is on disk already is opened as it is.
	Join []entry.Incarnation
}

func (s Spec) check(ns tenancy.NamespaceID) error {
	switch {
	case s.Shards < 0 || s.Shards > MaxShards:
		return api.Errorf(api.ValidationError, "namespace %s cannot have %d shards: give it 1 to %d", ns, s.Shards, MaxShards)
	case len(s.Join) > 0 && len(s.Join) != s.Shards:
		return api.Errorf(api.ValidationError, "namespace %s is to have %d shards and to join the groups of %d: name one group for each shard", ns, s.Shards, len(s.Join))
	}
	return nil
}

// shardsFile says, in a namespace's directory, how many shards it has. It is
// written before the first of them is opened.
const shardsFile = "shards.json"

// founding is what shardsFile says.
type founding struct {
	Shards int `json:"shards"`
	// Join is Spec.Join as it was first: whoever is stopped before all groups have a
	// directory must not found those that have none.
	Join []entry.Incarnation `json:"join,omitempty"`
}

// settleShards is how a namespace is opened: how many shards it has for ever, and
// what they join. A queue is looked for on the shard that its name and this number
// say, so that with another number queues would seem to be empty.
func (h *Host) settleShards(ns tenancy.NamespaceID, spec Spec) (Spec, bool, error) {
	found, err := readFounding(h.dir(ns))
	if err != nil {
		return Spec{}, false, fmt.Errorf("how many shards namespace %s has: %w", ns, err)
	}
	if found.Shards == 0 {
		spec.Shards = max(spec.Shards, 1)
		return spec, true, nil
	}
	if spec.Shards != 0 && spec.Shards != found.Shards {
		return Spec{}, false, api.Errorf(api.Conflict, "namespace %s was founded with %d shards and cannot be opened with %d, for a queue's shard follows from their number: start with %d, or found another and move the jobs there",
			ns, found.Shards, spec.Shards, found.Shards)
	}
	spec.Shards = found.Shards
	if spec.Join == nil {
		spec.Join = found.Join
	}
	return spec, false, nil
}

// readFounding is what is recorded in a namespace's directory; nothing, where it
// is new.
func readFounding(dir string) (founding, error) {
	path := filepath.Join(dir, shardsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		// Namespaces had one shard and no record once.
		if _, err = os.Lstat(filepath.Join(dir, "0")); err == nil {
			return founding{Shards: 1}, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return founding{}, nil
		}
	}
	if err != nil {
		return founding{}, err
	}
	var f founding
	if err := json.Unmarshal(text, &f); err != nil {
		return founding{}, fmt.Errorf("%s: %w", path, err)
	}
	if f.Shards < 1 || f.Shards > MaxShards || f.Join != nil && len(f.Join) != f.Shards {
		return founding{}, fmt.Errorf("%s says %d shards, of which %d join: it is damaged, restore it", path, f.Shards, len(f.Join))
	}
	return f, nil
}

func writeFounding(dir string, spec Spec) error {
	text, err := json.Marshal(founding(spec))
	if err != nil {
		return err
	}
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, shardsFile), append(text, '\n'), 0o600)
}
