package cell

import "github.com/corvo/corvo/engine/membership"

// members implements engine.Config.List.
func (c *Cell) members() (list []membership.Listed, changed <-chan struct{}) {
	changed = c.store.MembersChanged() // before the list is read, so that no change is missed
	for _, m := range c.store.Members().GetMembers() {
		list = append(list, membership.Listed{ID: m.GetId(), Address: m.GetAddress()})
	}
	return list, changed
}
