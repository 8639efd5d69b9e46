package replica

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// termKey is the key under which raft stores its term.
var termKey = []byte("CurrentTerm")

// Bootstrap writes the first entry of a new group into an empty log: a configuration with member id, at
// address, as the sole voter. The machine must be empty.
func Bootstrap(log Log, id, address string, machine Machine) error {
	if at := machine.Applied(); at.Index > 0 {
		return refuse("the store holds group %q up to entry %d, and a new group was to be founded on it", at.Group, at.Index)
	}
	at, transport := raft.NewInmemTransport(raft.ServerAddress(address))
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(id)
	members := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: conf.LocalID, Address: at}}}
	if err := raft.BootstrapCluster(conf, log, log, raft.NewDiscardSnapshotStore(), transport, members); err != nil {
		return fmt.Errorf("found the group: %w", err)
	}
	return nil
}

// BootstrapRestored founds a new group on a machine that was filled from a backup: member id, at address, is
// the sole voter, and the group continues from the machine's position. Afterwards dir, log and machine are as
// after the installation of a snapshot: the log is empty, and the manifest confirms the machine's position.
// After a crash at any moment, BootstrapRestored can be called again.
//
// It writes the configuration directly into the machine, as the entry after the machine's last one. No log
// holds that entry, and none needs to, because the group has no other member.
func BootstrapRestored(dir string, log Log, of entry.Applied, id, address string, machine Machine) error {
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
	// The term continues too, because an entry's term must not be lower than the term of the entry before.
	if err := log.SetUint64(termKey, at.Term); err != nil {
		return fmt.Errorf("found the restored group: %w", err)
	}
	configuration, index := machine.Configuration()
	return writeManifest(dir, newManifest(at, configuration, index))
}
