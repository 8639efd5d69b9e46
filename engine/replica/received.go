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

// A snapshot from another replica replaces the machine. A crash in the middle
// must leave neither half a machine nor one whose position nothing vouches for,
// so its parts are first complete files in the staging directory, then its
// announcement is a file beside the manifest, and only then does the machine take
// the parts over. As long as the announcement is there, opening the replica goes
// on from it.
//
// At its peak the disk holds the machine and the parts that it does not share
// with it: a part that the machine held already is a link, and the machine links
// what it takes over. A machine that cannot link copies, and holds the new
// content once more until the staging directory is emptied.

// received is a complete snapshot from elsewhere, on disk.
type received struct {
	path string
	announcement
}

func (s *snapshots) receivedPath(m manifest) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%016x-%016x%s", receivedPrefix, m.Term, m.Index, receivedSuffix))
}

// keepReceived makes a written sink durable. What it refuses has changed nothing,
// and the replica goes on.
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
		s.staging.leave()
		return fmt.Errorf("keep the received snapshot: %w", err)
	}
	return nil
}

// admit compares a snapshot with what raft was told of it and with what this
// replica is.
func (s *snapshots) admit(told, m manifest) error {
	switch at := s.machine.Applied(); {
	case m.Group != s.identity.Group || m.Incarnation != s.identity.Incarnation:
		return fmt.Errorf("the snapshot is of group %q, history %v; this replica is of group %q, history %v",
			m.Group, m.Incarnation, s.identity.Group, s.identity.Incarnation)
	case m.position() != told.position() || m.ConfigurationIndex != told.ConfigurationIndex || !bytes.Equal(m.Configuration, told.Configuration):
		return fmt.Errorf("the snapshot is of entry %d of term %d with the membership of entry %d; it was announced as of entry %d of term %d with that of %d",
			m.Index, m.Term, m.ConfigurationIndex, told.Index, told.Term, told.ConfigurationIndex)
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

// takeOver puts a received snapshot in the machine's place, unless it is there
// already.
func (s *snapshots) takeOver(got received) error {
	if s.machine.Applied().Position() != got.position() {
		if err := s.machine.Restore(s.staging.of(got.announcement, s.identity)); err != nil {
			return err
		}
	}
	return s.restored(got)
}

// restored ends a takeover: the machine is durable at the snapshot, so its
// manifest becomes the newest, and the announcement and then the parts go.
func (s *snapshots) restored(got received) error {
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

// resume finishes a takeover that a crash interrupted and removes what does not
// count. It comes before the machine is compared with the log.
func (s *snapshots) resume() error {
	names, err := filepath.Glob(filepath.Join(s.dir, receivedPrefix+"*"))
	if err != nil {
		return err
	}
	if err := s.staging.sweep(); err != nil {
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
		if err := s.finish(newest); err != nil {
			return fmt.Errorf("finish the takeover of a received snapshot: %w", err)
		}
	}
	for _, name := range slices.Backward(names) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// finish takes a snapshot over after a restart. Where a part is gone or damaged,
// and the machine has not taken them over yet, the machine is whole as it was and
// nobody has been told that the snapshot was taken: it is forgotten, its good
// parts are kept for the next attempt.
func (s *snapshots) finish(got received) error {
	if s.machine.Applied().Position() == got.position() {
		return s.restored(got)
	}
	missing, err := s.staging.pin(got.parts)
	if err != nil {
		return err
	}
	if missing > 0 {
		s.logger.Warn("a received snapshot is forgotten: parts of it are gone or damaged",
			"group", s.identity.Group, "index", got.Index, "parts", len(got.parts), "missing", missing)
		return nil
	}
	return s.takeOver(got)
}
