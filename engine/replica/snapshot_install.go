package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/corvo/corvo/durable"
)

// Installing a snapshot from another replica replaces the machine. A crash in the middle must leave neither
// half a machine nor one whose position nothing confirms. So the parts are first stored as complete files in
// the staging directory, then the announcement is written beside the manifest, and only then does the machine
// install the parts. As long as the announcement exists, opening the replica resumes the installation.
//
// At its peak the disk holds the old content of the machine and the new parts. A part that the machine
// already had is a link to its file, and the machine links the parts that it installs, so neither takes space
// twice. A machine that cannot link copies the parts, and holds the new content twice until the staging
// directory is emptied.

// received is a complete snapshot from another replica, on disk.
type received struct {
	path string
	announcement
}

func (s *snapshots) receivedPath(m manifest) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%016x-%016x%s", receivedPrefix, m.Term, m.Index, receivedSuffix))
}

// keepReceived makes the announcement in a sink durable. If it refuses, nothing has changed and the replica
// continues.
func (s *snapshots) keepReceived(k *sink) error {
	a, err := decodeAnnouncement(k.encoded)
	if err != nil {
		return err
	}
	if err := s.admit(k.manifest, a.manifest); err != nil {
		return err
	}
	missing, err := s.staging.pin(a.parts)
	if err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("the snapshot of entry %d lacks %d of its %d parts: send them again", a.Index, missing, len(a.parts))
	}
	if err := durable.WriteFile(s.receivedPath(k.manifest), k.encoded, 0o644); err != nil {
		s.staging.abandon()
		return fmt.Errorf("keep the received snapshot: %w", err)
	}
	return nil
}

// admit checks a snapshot's manifest against the meta that raft received and against this replica's identity
// and position.
func (s *snapshots) admit(announced, m manifest) error {
	switch at := s.machine.Applied(); {
	case m.Group != s.identity.Group || m.Incarnation != s.identity.Incarnation:
		return fmt.Errorf("the snapshot is of group %q, history %v; this replica is of group %q, history %v",
			m.Group, m.Incarnation, s.identity.Group, s.identity.Incarnation)
	case m.position() != announced.position() || m.ConfigurationIndex != announced.ConfigurationIndex || !bytes.Equal(m.Configuration, announced.Configuration):
		return fmt.Errorf("the snapshot is of entry %d of term %d with the membership of entry %d; it was announced as of entry %d of term %d with that of %d",
			m.Index, m.Term, m.ConfigurationIndex, announced.Index, announced.Term, announced.ConfigurationIndex)
	case m.Index < at.Index:
		return fmt.Errorf("the snapshot is of entry %d, this replica holds all up to entry %d", m.Index, at.Index)
	}
	return nil
}

func (s *snapshots) readReceived(id string) (received, error) {
	got := received{path: filepath.Join(s.dir, filepath.Base(id))}
	encoded, err := os.ReadFile(got.path)
	if err == nil {
		got.announcement, err = decodeAnnouncement(encoded)
	}
	if err != nil {
		return received{}, fmt.Errorf("snapshot %s: %w", filepath.Base(id), err)
	}
	return got, nil
}

// install replaces the machine by a received snapshot, unless the machine is already at its position.
func (s *snapshots) install(got received) error {
	if s.machine.Applied().Position() != got.position() {
		if err := s.machine.Restore(s.staging.source(got.announcement, s.identity)); err != nil {
			return err
		}
	}
	return s.installed(got)
}

// installed completes an installation. The machine is durable at the snapshot, so the manifest becomes the
// newest; then the announcement and the parts are removed.
func (s *snapshots) installed(got received) error {
	if at := s.machine.Applied(); at.Position() != got.position() ||
		at.Incarnation != s.identity.Incarnation || at.Group != s.identity.Group {
		return fmt.Errorf("the snapshot holds group %q, history %v, entry %d of term %d; it was announced as group %q, history %v, entry %d of term %d",
			at.Group, at.Incarnation, at.Index, at.Term,
			s.identity.Group, s.identity.Incarnation, got.Index, got.Term)
	}
	m := got.manifest
	m.Received = true
	if err := s.write(m); err != nil {
		return err
	}
	if err := os.Remove(got.path); err != nil {
		return err
	}
	return s.staging.unpin()
}

// resume finishes an installation that a crash interrupted and removes all other received snapshots. It runs
// before the machine is compared with the log.
func (s *snapshots) resume() error {
	names, err := filepath.Glob(filepath.Join(s.dir, receivedPrefix+"*"))
	if err != nil {
		return err
	}
	if err := s.staging.removePartial(); err != nil {
		return err
	}
	var newest received
	for _, name := range names {
		if filepath.Ext(name) != receivedSuffix {
			continue
		}
		got, err := s.readReceived(name)
		if err != nil {
			return err
		}
		if got.Index > newest.Index {
			newest = got
		}
	}
	if newest.path != "" && newest.Index >= s.newest.Load() {
		if err := s.finishInstall(newest); err != nil {
			return fmt.Errorf("finish the installation of a received snapshot: %w", err)
		}
	}
	for _, name := range slices.Backward(names) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// finishInstall installs a received snapshot after a restart. If a part is missing or damaged and the machine
// has not installed the snapshot yet, finishInstall drops the snapshot and keeps its good parts for the next
// attempt. That is safe because the machine is still complete as it was, and nobody was told that the
// snapshot was installed.
func (s *snapshots) finishInstall(got received) error {
	if s.machine.Applied().Position() == got.position() {
		return s.installed(got)
	}
	missing, err := s.staging.pin(got.parts)
	if err != nil {
		return err
	}
	if missing > 0 {
		s.logger.Warn("the replica discards a received snapshot: some of its parts are missing or damaged",
			"group", s.identity.Group, "index", got.Index, "parts", len(got.parts), "missing", missing)
		return nil
	}
	return s.install(got)
}
