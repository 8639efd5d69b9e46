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

// staging is where the parts of snapshots from other members gather: a directory
// of files named by the hash of their bytes, each there wholly and durably or not
// at all. So a transfer that broke, or a restart, costs the part that was under
// way; and a part that two snapshots share is one file.
//
// It is bounded by the newest list of parts: what that does not name goes when it
// arrives. A takeover in progress keeps its parts until it is done. What an
// abandoned transfer left goes with the second snapshot that the replica takes of
// itself without a part arriving in between: it follows the log then.
//
// A file is what its name says only once this process has hashed it: when it
// arrives, and when it is found after a restart.
type staging struct {
	dir  string
	held func(image.Part) string // see Holder; nil = the machine holds nothing

	mu       sync.Mutex
	verified set // files this process knows the bytes of
	wanted   set // the newest list of parts, nil = none
	pinned   set // the parts of the snapshot being taken over
	idle     bool
}

// set is parts by their hashes, with their sizes.
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

// Missing are the parts that have to be sent. It makes them the ones that are
// kept. Those of the same bytes are missing once.
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

// missing are those of the parts that are not here. The machine is looked into
// for them if adopt says so.
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

// has says whether a part is here with the right bytes; a file with others is
// removed.
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

// adopt links a file of the machine, if it is the part. The machine may remove the
// file meanwhile: the link stays, or there is none.
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
	// A link that cannot be had (another disk, a file just removed) is a part that
	// has to be sent: slower, and as good.
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

// Store takes a part that Missing has named.
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

// expects refuses what nobody asked for: it would fill the disk.
func (s *staging) expects(p image.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size, ok := s.wanted[p.Sum]; !ok || size != p.Size {
		return fmt.Errorf("part %s of %d bytes belongs to no snapshot that this replica was told of", p.Name, p.Size)
	}
	return nil
}

// prune removes what nobody wants; s.mu is held, or s is not shared yet.
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

// sweep removes parts half written; it is called before s is shared.
func (s *staging) sweep() error {
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

// pin says what is missing of a snapshot that is to be taken over, and keeps its
// parts if nothing is.
func (s *staging) pin(parts []image.Part) (missing int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lacking, err := s.missing(parts, false)
	if err == nil && len(lacking) == 0 {
		s.pinned = setOf(parts)
	}
	return len(lacking), err
}

// leave gives up on a takeover. Its parts stay, for the transfer's next attempt.
func (s *staging) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = nil
}

// unpin ends a takeover: the machine has the parts now. A list that has come
// meanwhile keeps its own.
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

// followed says that the replica has taken a snapshot of itself.
func (s *staging) followed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.idle || s.pinned != nil {
		s.idle = true
		return nil
	}
	s.wanted = nil
	return s.prune()
}

// of is a snapshot whose parts are all here, and stay while they are pinned.
func (s *staging) of(a announcement, identity entry.Applied) *staged {
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
	_ Claim         = (*staged)(nil)
)

func (s *staged) Parts() []image.Part    { return s.parts }
func (s *staged) Applied() entry.Applied { return s.at }

// Open reads a part and sees for itself that its bytes are right.
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

// Path is the file of a part. This process has hashed it: pin did.
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
