package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
)

// staging stores the parts of snapshots from other members: a directory of files named by the hash of their
// bytes. Each file is there completely and durably, or not at all. So a broken transfer, or a restart, costs
// only the part that was being sent; and two snapshots that share a part share the file.
//
// The newest list of parts bounds the directory: when a list arrives, staging removes all files that the list
// does not name. A running installation keeps its parts until it is done. The parts of an abandoned transfer
// are removed with the second snapshot that the replica takes of itself without a part arriving in between,
// because the replica then follows the log again.
//
// A file is trusted only after this process has hashed it: on arrival, when it is linked from the machine, or
// when it is found after a restart.
type staging struct {
	dir  string
	held func(image.Part) string // Holder.Held of the machine; nil if it has none

	mu       sync.Mutex
	verified set // files whose bytes this process has hashed
	wanted   set // the newest list of parts; nil if there is none
	pinned   set // the parts of the snapshot that is being installed
	idle     bool
}

// set holds parts by their hashes, with their sizes.
type set map[[sha256.Size]byte]int64

func setOf(parts []image.Part) set {
	s := make(set, len(parts))
	for _, p := range parts {
		s[p.Sum] = p.Size
	}
	return s
}

const (
	stagingDir    = "staging"
	stagingSuffix = ".tmp" // of a part that is being written
)

func newStaging(dir string, m Machine) *staging {
	s := &staging{dir: filepath.Join(dir, stagingDir), verified: set{}}
	if h, ok := m.(Holder); ok {
		s.held = h.Held
	}
	return s
}

func (s *staging) path(sum [sha256.Size]byte) string {
	return filepath.Join(s.dir, hex.EncodeToString(sum[:]))
}

// Missing returns the parts that are not stored yet, so that they have to be sent. It makes the given list
// the newest one, and so removes all files that neither the list nor a running installation names. Parts with
// the same bytes are returned once.
func (s *staging) Missing(parts []image.Part) ([]image.Part, error) {
	if err := image.Check(parts); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = false
	s.wanted = setOf(parts)
	if err := s.prune(); err != nil {
		return nil, err
	}
	return s.missing(parts, true)
}

// missing returns the parts that are not stored. If adopt is set, it looks for them in the machine too.
func (s *staging) missing(parts []image.Part, adopt bool) ([]image.Part, error) {
	var missing []image.Part
	seen := set{}
	for _, p := range parts {
		if _, ok := seen[p.Sum]; ok {
			continue
		}
		seen[p.Sum] = p.Size
		here, err := s.has(p)
		if err == nil && !here && adopt {
			here, err = s.adopt(p)
		}
		if err != nil {
			return nil, fmt.Errorf("part %s of a snapshot: %w", p.Name, err)
		}
		if !here {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// has reports whether a part is stored with the right bytes. It removes a file with other bytes.
func (s *staging) has(p image.Part) (bool, error) {
	info, err := os.Stat(s.path(p.Sum))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if size, ok := s.verified[p.Sum]; ok && size == p.Size && info.Size() == size {
		return true, nil
	}
	same, err := sameBytes(s.path(p.Sum), p)
	if err != nil {
		return false, err
	}
	if !same {
		return false, os.Remove(s.path(p.Sum))
	}
	s.verified[p.Sum] = p.Size
	return true, nil
}

func sameBytes(path string, p image.Part) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, image.Verify(p, f))
	err = errors.Join(err, f.Close())
	if errors.Is(err, image.ErrDiffers) {
		return false, nil
	}
	return err == nil, err
}

// adopt links a file of the machine if it has the part's bytes. If the machine removes the file at the same
// time, the link either stays or was never made.
func (s *staging) adopt(p image.Part) (bool, error) {
	if s.held == nil {
		return false, nil
	}
	path := s.held(p)
	if path == "" {
		return false, nil
	}
	if err := durable.MakeDir(s.dir, 0o700); err != nil {
		return false, err
	}
	link := s.path(p.Sum) + stagingSuffix
	// If a link fails (another disk, a file just removed), the part is sent: slower, but as good.
	if err := os.Link(path, link); err != nil {
		return false, nil //nolint:nilerr // see above
	}
	same, err := sameBytes(link, p)
	if err != nil || !same {
		return false, errors.Join(err, os.Remove(link))
	}
	f, err := os.Open(link)
	if err != nil {
		return false, err
	}
	if err := durable.Keep(f, s.path(p.Sum)); err != nil {
		return false, err
	}
	s.verified[p.Sum] = p.Size
	return true, nil
}

// Store writes a part of the newest list. It refuses every other part, and bytes that do not match the part's
// size and hash.
func (s *staging) Store(p image.Part, bytes io.Reader) error {
	if err := s.expects(p); err != nil {
		return err
	}
	if err := durable.MakeDir(s.dir, 0o700); err != nil {
		return fmt.Errorf("part %s of a snapshot: %w", p.Name, err)
	}
	f, err := os.CreateTemp(s.dir, "*"+stagingSuffix)
	if err != nil {
		return fmt.Errorf("part %s of a snapshot: %w", p.Name, err)
	}
	if _, err := io.Copy(f, image.Verify(p, bytes)); err != nil {
		return fmt.Errorf("part %s of a snapshot: %w", p.Name, errors.Join(err, f.Close(), os.Remove(f.Name())))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = false
	if err := durable.Keep(f, s.path(p.Sum)); err != nil {
		return fmt.Errorf("part %s of a snapshot: %w", p.Name, err)
	}
	s.verified[p.Sum] = p.Size
	return nil
}

// expects refuses a part that the newest list does not name, because it would fill the disk.
func (s *staging) expects(p image.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size, ok := s.wanted[p.Sum]; !ok || size != p.Size {
		return fmt.Errorf("part %s of %d bytes belongs to no snapshot that this replica was told of", p.Name, p.Size)
	}
	return nil
}

// prune removes every file that belongs neither to the newest list nor to the snapshot that is being
// installed. The caller holds s.mu.
func (s *staging) prune() error {
	names, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("parts of snapshots: %w", err)
	}
	keep := map[string]bool{}
	for _, of := range []set{s.wanted, s.pinned} {
		for sum := range of {
			keep[hex.EncodeToString(sum[:])] = true
		}
	}
	kept := 0
	for _, file := range names {
		if keep[file.Name()] {
			kept++
			continue
		}
		if err := s.remove(file.Name()); err != nil {
			return fmt.Errorf("parts of snapshots: %w", err)
		}
	}
	if kept == 0 {
		return os.RemoveAll(s.dir)
	}
	return nil
}

func (s *staging) remove(name string) error {
	var sum [sha256.Size]byte
	if n, err := hex.Decode(sum[:], []byte(name[:min(len(name), 2*len(sum))])); err == nil && n == len(sum) {
		delete(s.verified, sum)
	}
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removePartial removes partially written parts. It is called before s is shared.
func (s *staging) removePartial() error {
	names, err := filepath.Glob(filepath.Join(s.dir, "*"+stagingSuffix))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.remove(filepath.Base(name)); err != nil {
			return fmt.Errorf("parts of snapshots: %w", err)
		}
	}
	return nil
}

// pin returns the number of parts that a snapshot lacks. If it lacks none, pin protects its parts from prune.
func (s *staging) pin(parts []image.Part) (missing int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lacking, err := s.missing(parts, false)
	if err == nil && len(lacking) == 0 {
		s.pinned = setOf(parts)
	}
	return len(lacking), err
}

// abandon gives an installation up. Its parts stay for the next attempt of the transfer.
func (s *staging) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = nil
}

// unpin removes the parts of a completed installation, because the machine has them now. If the newest list
// names other parts, a newer snapshot is arriving, and all parts of that list stay.
func (s *staging) unpin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sum := range s.wanted {
		if _, ok := s.pinned[sum]; !ok {
			s.pinned = nil
			return s.prune()
		}
	}
	s.wanted, s.pinned = nil, nil
	return s.prune()
}

// snapshotTaken tells staging that the replica has taken a snapshot of itself.
func (s *staging) snapshotTaken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.idle || s.pinned != nil {
		s.idle = true
		return nil
	}
	s.wanted = nil
	return s.prune()
}

// source returns the snapshot of an announcement. The caller has pinned its parts, and they can be read until
// they are unpinned.
func (s *staging) source(a announcement, identity entry.Applied) *staged {
	identity.Index, identity.Term = a.Index, a.Term
	return &staged{staging: s, parts: a.parts, at: identity}
}

// staged reads a snapshot from the staging directory.
type staged struct {
	staging *staging
	parts   []image.Part
	at      entry.Applied
}

var (
	_ image.Located = (*staged)(nil)
	_ Positioned    = (*staged)(nil)
)

func (s *staged) Parts() []image.Part    { return s.parts }
func (s *staged) Applied() entry.Applied { return s.at }

// Open opens a part. The reader verifies its bytes.
func (s *staged) Open(name string) (io.ReadCloser, error) {
	p, err := s.part(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(s.staging.path(p.Sum))
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{image.Verify(p, f), f}, nil
}

// Path returns the file of a part, or "" if the snapshot has no such part. pin has hashed the file in this
// process.
func (s *staged) Path(name string) string {
	p, err := s.part(name)
	if err != nil {
		return ""
	}
	return s.staging.path(p.Sum)
}

func (s *staged) part(name string) (image.Part, error) {
	i, ok := slices.BinarySearchFunc(s.parts, name, func(p image.Part, name string) int { return strings.Compare(p.Name, name) })
	if ok {
		return s.parts[i], nil
	}
	return image.Part{}, fmt.Errorf("the snapshot has no part %q", name)
}
