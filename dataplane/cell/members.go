package cell

import (
	"context"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/membership"
)

// proposeInterval is the pause before a leader proposes a list of members again.
const proposeInterval = time.Second

// members implements engine.Config.List. A member that is on its way into the group may have moved since its
// list was made, so members prefers the addresses that the host knows.
func (c *Cell) members() (list []membership.Listed, changed <-chan struct{}) {
	changed = c.store.MembersChanged() // before the list is read, so that no change is missed
	known := map[string]string{}
	if newest, _ := c.newestMembers(); newest != nil {
		for _, m := range newest.Members {
			known[m.GetId()] = m.GetAddress()
		}
	}
	for _, m := range c.store.Members().GetMembers() {
		l := membership.Listed{ID: m.GetId(), Address: m.GetAddress()}
		if now := known[l.ID]; now != "" {
			l.Address = now
		}
		list = append(list, l)
	}
	return list, changed
}

// newestMembers returns the newest list that the host knows, or nil, and a channel that is closed when there may be
// a newer one.
func (c *Cell) newestMembers() (list *state.Members, changed <-chan struct{}) {
	if c.cfg.Members == nil {
		return nil, nil
	}
	return c.cfg.Members()
}

// proposeMembers proposes the newest list that the host knows whenever it is newer than the group's, until ctx
// ends. raised receives a token when the feature level has risen, because older levels have no such list. A
// refusal is final: the group has a newer list, or none can have this one.
func (c *Cell) proposeMembers(ctx context.Context, raised <-chan struct{}) {
	for {
		list, changed := c.newestMembers()
		var again <-chan time.Time
		if list != nil && list.Newer(c.store.Members()) {
			o := &op.SetMembers{Meta: &op.Meta{Principal: "host"}, Epoch: list.Epoch, Generation: list.Generation, Members: list.Members}
			_, _, err := Propose[*op.SetMembersResult](ctx, c, o)
			switch code := api.CodeOf(err); {
			case err == nil:
				c.onChange()
			case code == api.StateConflict || ctx.Err() != nil:
			case code == api.Unsupported:
				again = time.After(levelAgain) // a rise whose answer was lost gives no token
			default:
				c.cfg.Logger.Warn("a group's list of members cannot be set", "group", c.cfg.Group, "epoch", list.Epoch, "generation", list.Generation, "error", err)
				if code != api.ValidationError {
					again = time.After(proposeInterval)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-raised:
		case <-again:
		}
	}
}

func (c *Cell) onChange() {
	if c.cfg.OnChange != nil {
		c.cfg.OnChange()
	}
}

// Alone reports whether this member is the only one of its group, so that it can lead without others.
func (c *Cell) Alone() bool {
	members := c.group.Members()
	return len(members) == 1 && members[0].ID == c.cfg.NodeID
}

// Membership is this member's part in its group. Only a leader knows more than whether it has the log, because
// the others may be behind.
type Membership struct {
	// Joined says that the member has received the group's log, and Leads that it leads and serves.
	Joined, Leads bool
	// Last is the position of the newest entry that the member has, committed or not.
	Last engine.Position
	// List is the group's list of members, or nil if it has none. The reader must not change it.
	List *state.Members
	// Configuration is the index of the applied Raft configuration. Voters and Learners are its members, sorted.
	Configuration    uint64
	Voters, Learners []string
}

// Membership returns this member's present part in its group.
func (c *Cell) Membership() Membership {
	m := Membership{Joined: c.Applied() > 0, Leads: c.Leader(), Last: c.group.Newest()}
	if !m.Leads {
		return m
	}
	m.List = c.store.Members()
	peers, index := c.group.Configuration()
	m.Configuration = index
	for _, p := range peers {
		if p.Voter {
			m.Voters = append(m.Voters, p.ID)
		} else {
			m.Learners = append(m.Learners, p.ID)
		}
	}
	return m
}
