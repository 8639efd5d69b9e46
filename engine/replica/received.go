package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corvo/corvo/engine/durable"
)

// A snapshot from another replica replaces the machine. A crash in the middle
// must leave neither half a machine nor one whose position nothing vouches for,
// so the stream is first a complete file with its manifest beside it, and only
// then does the machine read it. As long as the pair is there, opening the
// replica reads it again.

func (s *snapshots) receivedPath(m manifest) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%016x-%016x%s", receivedPrefix, m.Term, m.Index, receivedSuffix))
}

// keepReceived makes a written sink durable: the stream first, then the manifest
// that makes it count.
func (s *snapshots) keepReceived(k *sink) error {
	path := s.receivedPath(k.manifest)
	if err := durable.Keep(k.file, path); err != nil {
		return fmt.Errorf("keep the received snapshot: %w", err)
	}
	data, err := json.Marshal(k.manifest)
	if err != nil {
		return err
	}
	return durable.WriteFile(path+".json", data, 0o644)
}

func (s *snapshots) readReceived(id string) (received, error) {
	path := filepath.Join(s.dir, filepath.Base(id))
	data, err := os.ReadFile(path + ".json")
	if err != nil {
		return received{}, fmt.Errorf("snapshot %s: %w", id, err)
	}
	got := received{path: path}
	if err := json.Unmarshal(data, &got.manifest); err != nil {
		return received{}, fmt.Errorf("the manifest of snapshot %s is damaged: %w", id, err)
	}
	return got, nil
}

func (r received) open() (*os.File, int64, error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// restored ends a takeover: the machine is durable at the snapshot, so its
// manifest becomes the newest and the file goes.
func (s *snapshots) restored(got received) error {
	if at := s.machine.Applied(); at.Position() != got.manifest.position() ||
		at.Incarnation != s.identity.Incarnation || at.Group != s.identity.Group {
		return fmt.Errorf("the snapshot holds group %q, history %v, entry %d of term %d; it was announced as group %q, history %v, entry %d of term %d",
			at.Group, at.Incarnation, at.Index, at.Term,
			s.identity.Group, s.identity.Incarnation, got.manifest.Index, got.manifest.Term)
	}
	if err := s.write(got.manifest); err != nil {
		return err
	}
	return s.discard(got)
}

// discard removes the manifest first: a stream without one does not count.
func (s *snapshots) discard(got received) error {
	return errors.Join(os.Remove(got.path+".json"), os.Remove(got.path))
}

// resume finishes a takeover that a crash interrupted and removes what does not
// count. It comes before the machine is compared with the log.
func (s *snapshots) resume() error {
	names, err := filepath.Glob(filepath.Join(s.dir, receivedPrefix+"*"))
	if err != nil {
		return err
	}
	var newest received
	for _, name := range names {
		path, isManifest := strings.CutSuffix(name, ".json")
		if !isManifest {
			continue
		}
		got, err := s.readReceived(path)
		if err != nil {
			return err
		}
		if got.manifest.Index > newest.manifest.Index {
			newest = got
		}
	}
	if newest.path != "" && newest.manifest.Index >= s.newest.Load() {
		if err := s.takeOver(newest); err != nil {
			return fmt.Errorf("finish the takeover of a received snapshot: %w", err)
		}
	}
	slices.Sort(names) // a stream sorts before its manifest: walk backwards
	for _, name := range slices.Backward(names) {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (s *snapshots) takeOver(got received) error {
	if s.machine.Applied().Position() == got.manifest.position() {
		return s.restored(got)
	}
	f, _, err := got.open()
	if err != nil {
		return err
	}
	if err := errors.Join(s.machine.Restore(f), f.Close()); err != nil {
		return err
	}
	return s.restored(got)
}
