package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
)

// ConfiguredAfter returns the index of the newest configuration after an entry that has the given member; 0 = there is
// none. It reads the files of a closed replica: its log, which is nil if the replica has none, the manifest and a
// snapshot that was not installed yet. It needs no machine, because the log holds all that the machine applied after
// the manifest. An entry of the log counts even if the group has never committed it, because only a leader knows that.
func ConfiguredAfter(dir string, log Log, id string, after uint64) (newest uint64, err error) {
	note := func(encoded []byte, index uint64) error {
		if index <= max(after, newest) {
			return nil
		}
		c, err := decodeConfiguration(encoded)
		if err != nil {
			return fmt.Errorf("configuration %d in %s: %w", index, dir, err)
		}
		if slices.ContainsFunc(c.Servers, func(s raft.Server) bool { return s.ID == raft.ServerID(id) }) {
			newest = index
		}
		return nil
	}
	manifests, err := manifestsIn(dir)
	if err != nil {
		return 0, err
	}
	for _, m := range manifests {
		if err := note(m.Configuration, m.ConfigurationIndex); err != nil {
			return 0, err
		}
	}
	if log == nil {
		return newest, nil
	}
	first, err := log.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	last, err := log.LastIndex()
	if err != nil {
		return 0, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	for index := max(first, after+1); last > 0 && index <= last; index++ {
		var l raft.Log
		if err := log.GetLog(index, &l); err != nil {
			return 0, fmt.Errorf("read entry %d of the log in %s: %w", index, dir, err)
		}
		if l.Type != raft.LogConfiguration {
			continue
		}
		if err := note(l.Data, index); err != nil {
			return 0, err
		}
	}
	return newest, nil
}

// Empty reports whether a closed replica has received neither an entry nor a snapshot. Its log is nil if it has none.
func Empty(dir string, log Log) (bool, error) {
	manifests, err := manifestsIn(dir)
	if err != nil {
		return false, err
	}
	if len(manifests) > 1 || manifests[0].Index > 0 {
		return false, nil
	}
	if log == nil {
		return true, nil
	}
	last, err := log.LastIndex()
	if err != nil {
		return false, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	return last == 0, nil
}

// manifestsIn returns the manifest of the newest snapshot and those of received snapshots whose installation was cut
// short.
func manifestsIn(dir string) ([]manifest, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	all := []manifest{m}
	paths, err := filepath.Glob(filepath.Join(dir, receivedPrefix+"*"+receivedSuffix))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		encoded, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		a, err := decodeAnnouncement(encoded)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, a.manifest)
	}
	return all, nil
}
