package replica

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// termKey is where raft keeps its term among the log's stable values.
var termKey = []byte("CurrentTerm")

// Refound founds a new group on a machine that was filled from a backup: with member
// id, at an address, as the sole voter, from the position the machine has. Afterwards
// dir, log and machine are as after the takeover of a snapshot: the log is empty, and
// the manifest vouches for the machine. A crash at any moment leaves what Refound can
// be called for again.
//
// The membership goes straight into the machine, as the entry behind the machine's
// last one: no log holds that entry, and none needs to, for there is nobody else.
func Refound(dir string, log Log, of entry.Applied, id, address string, machine Machine) error {
	at := machine.Applied()
	switch {
	case at.Index == 0:
		return refuse("group %q was restored from a backup, and its store is empty", of.Group)
	case at.Group != of.Group || at.Incarnation != of.Incarnation:
		return refuse("the store belongs to group %q, history %v; what was restored is group %q, history %v", at.Group, at.Incarnation, of.Group, of.Incarnation)
	}
	alone := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(address)},
	}})
	if recorded, _ := machine.Configuration(); !bytes.Equal(recorded, alone) {
		at.Index++
		if err := machine.Configure(at, alone); err != nil {
			return fmt.Errorf("found the restored group: %w", err)
		}
	}
	if err := machine.Flush(); err != nil {
		return fmt.Errorf("found the restored group: %w", err)
	}
	// Terms go on as well: an entry's must not be below that of the one before.
	if err := log.SetUint64(termKey, at.Term); err != nil {
		return fmt.Errorf("found the restored group: %w", err)
	}
	configuration, index := machine.Configuration()
	return writeManifest(dir, newManifest(at, configuration, index))
}
