package state

import "fmt"

// Newer reports whether the list replaces old, which may be nil. The epoch counts before the generation.
func (m *Members) Newer(old *Members) bool {
	if old == nil || m.Epoch != old.Epoch {
		return old == nil || m.Epoch > old.Epoch
	}
	return m.Generation > old.Generation
}

// Members returns the group's list of members as the entry's earlier ops left it, or nil if there is none. The
// caller must not change it.
func (tx *Tx) Members() *Members {
	if tx.membersPut != nil {
		return tx.membersPut
	}
	return tx.s.members.Load()
}

// PutMembers replaces the group's list of members. The Tx keeps list.
func (tx *Tx) PutMembers(list *Members) error {
	if err := put(tx.batch, membersKey(), list); err != nil {
		return tx.fail(fmt.Errorf("put the members: %w", err))
	}
	tx.membersPut = list
	return nil
}

// Members returns the group's list of members as of the last commit, or nil if there is none. The caller must
// not change it.
func (s *Store) Members() *Members { return s.members.Load() }

// MembersChanged returns a channel that is closed when the group's list of members is replaced, and by a restore.
// A reader must take the channel before it reads the list, so that it misses no change.
func (s *Store) MembersChanged() <-chan struct{} { return s.memberChanges.changed() }

func loadMembers(r source) (*Members, error) {
	list := &Members{}
	found, err := get(r, membersKey(), list)
	if err != nil || !found {
		return nil, err
	}
	return list, nil
}

// Members reads the group's list of members, or nil if there is none.
func (v *Snapshot) Members() (*Members, error) { return loadMembers(v.snap) }
