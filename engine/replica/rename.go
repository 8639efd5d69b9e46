package replica

import (
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// rename gives the group's only voter the id and address of this member, unless it has that id already. It
// appends a configuration after the last entry, as a leader would: the group's only voter commits every entry
// of its log. The append is one durable step, and a repetition finds it done. Raft must not run yet, and
// reconcile must have compared machine and log.
//
// Rewriting the entry that holds the old name was rejected, because the machine and the manifest hold that
// name too, and the three files could not change in one step.
func (r *Replica) rename() error {
	newest, at, err := r.newestConfiguration()
	if err != nil {
		return err
	}
	if len(newest.Servers) != 1 || newest.Servers[0].Suffrage != raft.Voter {
		return refuse("the group has %d members, and only the one of a group that has no other can be renamed to %q", len(newest.Servers), r.id)
	}
	if newest.Servers[0].ID == r.id {
		return nil
	}
	renamed := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: r.id, Address: r.transport.LocalAddr()}}}
	err = r.journal.StoreLogs([]*raft.Log{{
		Index: at.Index + 1, Term: at.Term, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(renamed),
	}})
	if err != nil {
		return fmt.Errorf("rename the voter %q to %q: %w", newest.Servers[0].ID, r.id, err)
	}
	r.logger.Info("renamed the only voter of a group", "group", r.identity.Group, "was", newest.Servers[0].ID, "id", r.id)
	return nil
}

// newestConfiguration returns the newest configuration of machine and log, and the position of the last entry
// of both.
func (r *Replica) newestConfiguration() (newest raft.Configuration, at entry.Position, err error) {
	encoded, _ := r.machine.Configuration()
	at = r.machine.Applied().Position()
	last, err := r.journal.LastIndex()
	if err != nil {
		return newest, at, fmt.Errorf("read the log: %w", err)
	}
	for index := at.Index + 1; index <= last; index++ {
		var l raft.Log
		if err := r.journal.Log.GetLog(index, &l); err != nil {
			return newest, at, fmt.Errorf("read entry %d of the log: %w", index, err)
		}
		if l.Type == raft.LogConfiguration {
			encoded = l.Data
		}
		at = entry.Position{Index: l.Index, Term: l.Term}
	}
	if encoded == nil {
		return newest, at, refuse("neither the store nor the log holds a membership")
	}
	newest, err = decodeConfiguration(encoded)
	return newest, at, err
}
