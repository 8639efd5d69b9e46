package replica

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/entry"
)

// snapshots is the store raft keeps its snapshots in. There is at most one and
// it is not a file: the machine itself is the snapshot of all it has applied.
// Taking one flushes the machine and writes a manifest; opening one streams an
// image of the machine made at that moment. Only a snapshot that comes from
// another replica is a file, until the machine has taken it over.
type snapshots struct {
	dir      string
	machine  Machine
	identity entry.Applied // group and incarnation
	fail     func(error)
	newest   atomic.Uint64 // index of the newest manifest

	mu      sync.Mutex
	restore received // what the next Restore of the machine reads
}

const (
	imageID        = "image"     // the snapshot that is the machine
	receivedPrefix = "received-" // files of snapshots from elsewhere
	receivedSuffix = ".snapshot"
)

// received is a complete snapshot from elsewhere, on disk.
type received struct {
	path     string
	manifest manifest
}

// List answers the machine as of its last applied entry.
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

// decodeConfiguration reads raft's encoding of a membership, which panics where
// it should refuse.
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

// Open streams the machine as of now, or a received snapshot. The size in the
// meta is exact: raft accepts a stream cut short at too small a size, and waits
// for ever for one too large.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if id != imageID {
		return s.openReceived(id)
	}
	image, err := s.machine.Image()
	if err != nil {
		return nil, nil, fmt.Errorf("image of the machine: %w", err)
	}
	meta, stream, err := openImage(image)
	if err != nil {
		return nil, nil, errors.Join(err, image.Close())
	}
	return meta, stream, nil
}

func openImage(image Image) (*raft.SnapshotMeta, io.ReadCloser, error) {
	configuration, index := image.Configuration()
	meta, err := snapshotMeta(imageID, newManifest(image.Applied(), configuration, index))
	if err != nil {
		return nil, nil, err
	}
	// Writing it once to nowhere is what an exact size costs; a file instead would
	// need the space of the machine once more.
	if meta.Size, err = image.WriteTo(io.Discard); err != nil {
		return nil, nil, fmt.Errorf("measure the image: %w", err)
	}
	r, w := io.Pipe()
	stream := &imageStream{PipeReader: r, image: image, written: make(chan struct{})}
	go func() {
		defer close(stream.written)
		_, err := image.WriteTo(w)
		w.CloseWithError(err)
	}()
	return meta, stream, nil
}

// imageStream reads what an image writes.
type imageStream struct {
	*io.PipeReader
	image   Image
	written chan struct{}
}

func (s *imageStream) Close() error {
	err := s.PipeReader.Close()
	<-s.written
	return errors.Join(err, s.image.Close())
}

func (s *snapshots) openReceived(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	got, err := s.readReceived(id)
	if err != nil {
		return nil, nil, err
	}
	meta, err := snapshotMeta(id, got.manifest)
	if err != nil {
		return nil, nil, err
	}
	f, size, err := got.open()
	if err != nil {
		return nil, nil, err
	}
	meta.Size = size
	s.mu.Lock()
	s.restore = got
	s.mu.Unlock()
	return meta, f, nil
}

// Create is called by raft for both kinds of snapshot: its own, whose Persist
// calls persisted on the sink, and one from elsewhere, whose bytes it writes.
func (s *snapshots) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	at := s.identity
	at.Index, at.Term = index, term
	return &sink{store: s, manifest: newManifest(at, raft.EncodeConfiguration(c), configurationIndex)}, nil
}

// write makes m the newest manifest.
func (s *snapshots) write(m manifest) error {
	if err := writeManifest(s.dir, m); err != nil {
		return fmt.Errorf("write the snapshot manifest: %w", err)
	}
	s.newest.Store(m.Index)
	return nil
}

// sink is a snapshot in the making.
type sink struct {
	store    *snapshots
	manifest manifest
	own      bool     // persisted was called
	file     *os.File // of a snapshot from elsewhere
	size     int64
}

func (k *sink) ID() string {
	if k.file == nil {
		return imageID
	}
	return strings.TrimSuffix(filepath.Base(k.file.Name()), ".tmp")
}

// persisted says that the machine is durable at the given position.
func (k *sink) persisted(at entry.Position) error {
	if at != k.manifest.position() {
		return fmt.Errorf("raft takes a snapshot at entry %d of term %d, the machine is at entry %d of term %d",
			k.manifest.Index, k.manifest.Term, at.Index, at.Term)
	}
	k.own = true
	return nil
}

func (k *sink) Write(p []byte) (int, error) {
	if k.file == nil {
		f, err := os.Create(k.store.receivedPath(k.manifest) + ".tmp")
		if err != nil {
			return 0, err
		}
		k.file = f
	}
	n, err := k.file.Write(p)
	k.size += int64(n)
	return n, err
}

// Close makes the snapshot count. A stream that brought nothing is refused: it
// would pass for a snapshot of this machine.
func (k *sink) Close() error {
	switch {
	case k.own:
		err := k.store.write(k.manifest)
		if err != nil {
			k.store.fail(err)
		}
		return err
	case k.size == 0:
		return errors.New("the snapshot that was sent is empty")
	}
	return k.store.keepReceived(k)
}

func (k *sink) Cancel() error {
	if k.file == nil {
		return nil
	}
	return errors.Join(k.file.Close(), os.Remove(k.file.Name()))
}
