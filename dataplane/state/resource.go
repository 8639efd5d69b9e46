package state

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// resourceName identifies a resource: names are unique within a kind.
type resourceName struct {
	kind ResourceKind
	name string
}

// ResourceIndex returns the resources as the entry's earlier ops left them. The caller must not change it.
func (tx *Tx) ResourceIndex() *ResourceIndex {
	if tx.resourceIndex == nil {
		tx.resourceIndex = newResourceIndex(tx.s.resources)
	}
	return tx.resourceIndex
}

// ResourceIndex returns the resources as of the last commit. The caller must not change it.
func (s *Store) ResourceIndex() *ResourceIndex { return s.resourcesRead.Load() }

// Resource returns a resource as the entry's earlier ops left it, or nil if there is none. The caller must
// not change it. Unlike ResourceIndex, it does not rebuild an index after each change.
func (tx *Tx) Resource(kind ResourceKind, name string) *Resource {
	return tx.s.resources[resourceName{kind, name}]
}

// CountResources returns the number of resources of a kind.
func (tx *Tx) CountResources(kind ResourceKind) (n int) {
	for name := range tx.s.resources {
		if name.kind == kind {
			n++
		}
	}
	return n
}

// PutResource stores a copy of a resource under its kind and name, in place of an earlier one, and adds the
// event of the change. If the earlier one has another id, PutResource also adds the event of its deletion.
func (tx *Tx) PutResource(r *Resource) error {
	if err := checkResource(r); err != nil {
		return tx.fail(fmt.Errorf("put resource %q of kind %d: %w", r.Name, r.Kind, err))
	}
	if was := tx.Resource(r.Kind, r.Name); was != nil && !bytes.Equal(was.Id, r.Id) {
		tx.resourceChanged(was, EventType_EVENT_RESOURCE_DELETED)
	}
	if err := put(tx.batch, appendResourceKey(nil, r.Kind, r.Name), r); err != nil {
		return tx.fail(fmt.Errorf("put resource %q of kind %d: %w", r.Name, r.Kind, err))
	}
	tx.s.resources[resourceName{r.Kind, r.Name}] = proto.Clone(r).(*Resource)
	tx.resourceChanged(r, EventType_EVENT_RESOURCE_CHANGED)
	return nil
}

// DeleteResource removes a resource. It does nothing if there is none.
func (tx *Tx) DeleteResource(kind ResourceKind, name string) error {
	r := tx.s.resources[resourceName{kind, name}]
	if r == nil {
		return nil
	}
	if err := tx.batch.Delete(appendResourceKey(nil, kind, name), nil); err != nil {
		return tx.fail(fmt.Errorf("delete resource %q of kind %d: %w", name, kind, err))
	}
	delete(tx.s.resources, resourceName{kind, name})
	tx.resourceChanged(r, EventType_EVENT_RESOURCE_DELETED)
	return nil
}

func (tx *Tx) resourceChanged(r *Resource, event EventType) {
	tx.resourceIndex, tx.resourcesPut = nil, true
	if r.Kind == ResourceKind_RESOURCE_KIND_ROLE {
		tx.keysPut = true // the permissions of keys have changed with it
	}
	tx.recordEvent(event, "", [16]byte(r.Id))
}

func checkResource(r *Resource) error {
	switch {
	case r.Kind == 0:
		return fmt.Errorf("it has no kind")
	case r.Name == "":
		return fmt.Errorf("it has no name")
	case len(r.Id) != 16:
		return fmt.Errorf("its id has %d bytes", len(r.Id))
	}
	return nil
}

func loadResources(r source) (map[resourceName]*Resource, error) {
	all := map[resourceName]*Resource{}
	for rec, err := range scan(r, prefixResource, func() *Resource { return &Resource{} }) {
		if err != nil {
			return nil, err
		}
		all[resourceName{rec.Kind, rec.Name}] = rec
	}
	return all, nil
}

// ResourceIndex reads and indexes the resources of the snapshot, at each call.
func (v *Snapshot) ResourceIndex() (*ResourceIndex, error) {
	all, err := loadResources(v.snap)
	if err != nil {
		return nil, err
	}
	return newResourceIndex(all), nil
}

func appendResourceKey(b []byte, kind ResourceKind, name string) []byte {
	return append(append(b, prefixResource, byte(kind)), name...)
}

// resources checks that each resource lies under its own key and has a unique id, because events and other
// records refer to it by id.
func (c *checker) resources() error {
	named := map[string]string{}
	for kv, err := range scanPairs(c.v.snap, []byte{prefixResource}, afterPrefix(prefixResource)) {
		if err != nil {
			return err
		}
		r := &Resource{}
		if err := decode(kv, r); err != nil {
			return err
		}
		if string(kv.Key) != string(appendResourceKey(nil, r.Kind, r.Name)) {
			c.report("resource %q of kind %d lies under key %x", r.Name, r.Kind, kv.Key)
		}
		if err := checkResource(r); err != nil {
			c.report("resource %q of kind %d: %w", r.Name, r.Kind, err)
		}
		if other, taken := named[string(r.Id)]; taken {
			c.report("resources %q and %q have the id %x", other, r.Name, r.Id)
		}
		named[string(r.Id)] = r.Name
	}
	return nil
}
