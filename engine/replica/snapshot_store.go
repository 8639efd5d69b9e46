package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// snapshots implements raft's snapshot store. It holds one snapshot at most, which is not a file: the machine
// itself is the snapshot of everything it has applied. Taking a snapshot flushes the machine and writes a
// manifest. Opening one takes an image of the machine at that moment and announces its parts. Only a snapshot
// received from another replica is stored as files, until the machine has installed it.
type snapshots struct {
	dir      string
	machine  Machine
	identity entry.Applied // group and incarnation
	staging  *staging
	fail     func(error)
	logger   *slog.Logger
	newest   atomic.Uint64 // index of the newest manifest
	made     atomic.Uint64 // manifests written since the replica was opened

	writing sync.Mutex // held while the manifest is written

	mu      sync.Mutex
	restore received // the snapshot that the next Restore of the fsm installs
}

const (
	imageID        = "image"     // the snapshot that is the machine
	receivedPrefix = "received-" // announcements of snapshots from other replicas
	receivedSuffix = ".snapshot"
)

func newSnapshots(dir string, m Machine, identity entry.Applied, fail func(error), logger *slog.Logger) *snapshots {
	return &snapshots{dir: dir, machine: m, identity: identity, staging: newStaging(dir, m), fail: fail, logger: logger}
}

// List returns one snapshot, the machine at its last applied entry, or none if the machine is empty.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	at := s.machine.Applied()
	if at.Index == 0 {
		return nil, nil
	}
	configuration, index := s.machine.Configuration()
	meta, err := snapshotMeta(imageID, newManifest(at, configuration, index))
	if err != nil {
		return nil, err
	}
	return []*raft.SnapshotMeta{meta}, nil
}

func snapshotMeta(id string, m manifest) (*raft.SnapshotMeta, error) {
	configuration, err := decodeConfiguration(m.Configuration)
	if err != nil {
		return nil, err
	}
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: id, Index: m.Index, Term: m.Term,
		Configuration: configuration, ConfigurationIndex: m.ConfigurationIndex,
	}, nil
}

// decodeConfiguration decodes raft's encoding of a configuration and turns the panics of raft's decoder into
// errors.
func decodeConfiguration(data []byte) (c raft.Configuration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the recorded membership is damaged: %v", p)
		}
	}()
	if len(data) == 0 {
		return c, errors.New("no membership is recorded")
	}
	return raft.DecodeConfiguration(data), nil
}

// Open announces the machine as it is now, or a received snapshot. The size in the meta must be exact: raft
// accepts a truncated stream if the size is too small, and waits for ever if it is too large.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if id != imageID {
		return s.openReceived(id)
	}
	of, err := s.machine.Image()
	if err != nil {
		return nil, nil, fmt.Errorf("image of the machine: %w", err)
	}
	meta, stream, err := announce(of)
	if err != nil {
		return nil, nil, errors.Join(err, of.Close())
	}
	return meta, stream, nil
}

func announce(of Image) (*raft.SnapshotMeta, *imageStream, error) {
	configuration, index := of.Configuration()
	a := announcement{manifest: newManifest(of.Applied(), configuration, index), parts: of.Parts()}
	meta, err := snapshotMeta(imageID, a.manifest)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := a.encode()
	if err != nil {
		return nil, nil, err
	}
	meta.Size = int64(len(encoded))
	return meta, &imageStream{Image: of, Reader: bytes.NewReader(encoded)}, nil
}

// imageStream is the announcement of an image, as a stream for raft. The transport recognises it as an
// image.Source and sends the image's parts before the announcement.
type imageStream struct {
	Image
	*bytes.Reader
}

var _ image.Source = (*imageStream)(nil)

func (s *snapshots) openReceived(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	got, err := s.readReceived(id)
	if err != nil {
		return nil, nil, err
	}
	meta, err := snapshotMeta(id, got.manifest)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := got.encode()
	if err != nil {
		return nil, nil, err
	}
	meta.Size = int64(len(encoded))
	s.mu.Lock()
	s.restore = got
	s.mu.Unlock()
	return meta, io.NopCloser(bytes.NewReader(encoded)), nil
}

// Create is called by raft for both kinds of snapshot. For the replica's own, Persist calls persisted on the
// sink; for one from another replica, raft writes the received bytes.
func (s *snapshots) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	at := s.identity
	at.Index, at.Term = index, term
	return &sink{store: s, manifest: newManifest(at, raft.EncodeConfiguration(c), configurationIndex)}, nil
}

// write makes m the newest manifest. It skips a manifest that is older than the newest. That happens if the
// machine has installed a snapshot from another replica while its own was being taken.
func (s *snapshots) write(m manifest) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if m.Index < s.newest.Load() {
		return nil
	}
	if err := writeManifest(s.dir, m); err != nil {
		return fmt.Errorf("write the snapshot manifest: %w", err)
	}
	s.newest.Store(m.Index)
	s.made.Add(1)
	return nil
}

// sink is a snapshot that is being created.
type sink struct {
	store    *snapshots
	manifest manifest
	own      bool   // persisted was called
	encoded  []byte // the announcement of a snapshot from another replica
}

func (k *sink) ID() string {
	if len(k.encoded) == 0 {
		return imageID
	}
	return filepath.Base(k.store.receivedPath(k.manifest))
}

// persisted records that the machine is durable at the given position.
func (k *sink) persisted(at entry.Position) error {
	if at != k.manifest.position() {
		return fmt.Errorf("raft takes a snapshot at entry %d of term %d, the machine is at entry %d of term %d",
			k.manifest.Index, k.manifest.Term, at.Index, at.Term)
	}
	k.own = true
	return nil
}

func (k *sink) Write(p []byte) (int, error) {
	if len(k.encoded)+len(p) > maxAnnouncement {
		return 0, fmt.Errorf("the list of the snapshot's parts has more than %d bytes", maxAnnouncement)
	}
	k.encoded = append(k.encoded, p...)
	return len(p), nil
}

// Close completes the snapshot. It refuses an empty stream, which would look like a snapshot of this machine.
func (k *sink) Close() error {
	switch {
	case k.own:
		err := k.store.write(k.manifest)
		if err == nil {
			err = k.store.staging.snapshotTaken()
		}
		if err != nil {
			k.store.fail(err)
		}
		return err
	case len(k.encoded) == 0:
		return errors.New("the snapshot that was sent is empty")
	}
	return k.store.keepReceived(k)
}

// Cancel discards the announcement. The parts stay for the next attempt.
func (k *sink) Cancel() error { return nil }
