package replica

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/corvo/corvo/engine/image"
)

func partsOf(texts ...string) (parts []image.Part) {
	for i, text := range texts {
		parts = append(parts, image.Part{Name: fmt.Sprintf("%03d", i), Size: int64(len(text)), Sum: sha256.Sum256([]byte(text))})
	}
	return parts
}

// missing returns the names of the missing parts.
func missing(t *testing.T, s image.Staging, parts []image.Part) string {
	t.Helper()
	lacking, err := s.Missing(parts)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range lacking {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func mustStore(t *testing.T, s image.Staging, p image.Part, text string) {
	t.Helper()
	if err := s.Store(p, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func stagingOf(t *testing.T, dir string) *staging {
	t.Helper()
	s := newStaging(dir, new(tape))
	if err := s.removePartial(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStaging(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stagingOf(t, dir)
	parts := partsOf("a", "bb", "", "a", "cc")
	if got := missing(t, s, parts); got != "000 001 002 004" {
		t.Errorf("at first there is missing %q", got)
	}
	mustStore(t, s, parts[1], "bb")
	mustStore(t, s, parts[2], "")
	mustStore(t, s, parts[0], "a")
	mustStore(t, s, parts[0], "a") // storing it twice is no error
	if got := missing(t, s, parts); got != "004" {
		t.Errorf("then there is missing %q", got)
	}
	// A restart keeps the parts and hashes them again.
	s = stagingOf(t, dir)
	if got := missing(t, s, parts); got != "004" {
		t.Errorf("after a restart there is missing %q", got)
	}
	// Another list removes the parts that it does not name.
	next := partsOf("bb", "dd")
	if got := missing(t, s, next); got != "001" {
		t.Errorf("of another list there is missing %q", got)
	}
	if got := len(list(t, filepath.Join(dir, stagingDir))); got != 1 {
		t.Errorf("%d files are kept", got)
	}
	if got := missing(t, s, partsOf()); got != "" || len(list(t, dir)) != 0 {
		t.Errorf("of nothing there is missing %q, there is left %v", got, list(t, dir))
	}
}

// TestStagingRefuses checks that wrong bytes are refused and leave no file.
func TestStagingRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stagingOf(t, dir)
	parts := partsOf("some bytes")
	if err := s.Store(parts[0], strings.NewReader("some bytes")); err == nil {
		t.Error("what nobody asked for is taken")
	}
	if got := missing(t, s, parts); got != "000" {
		t.Fatal(got)
	}
	torn := errors.New("torn")
	for what, r := range map[string]io.Reader{
		"cut": strings.NewReader("some byte"), "longer": strings.NewReader("some bytes!"), "another": strings.NewReader("sOme bytes"),
		"nothing": strings.NewReader(""), "torn": io.MultiReader(strings.NewReader("some"), iotest.ErrReader(torn)),
		"torn at its end": io.MultiReader(strings.NewReader("some bytes"), iotest.ErrReader(torn)),
	} {
		if err := s.Store(parts[0], r); err == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
	other := parts[0]
	other.Size++
	if err := s.Store(other, strings.NewReader("some bytes!")); err == nil {
		t.Error("a part of another size is taken")
	}
	if got := list(t, filepath.Join(dir, stagingDir)); len(got) != 0 {
		t.Errorf("there is left %v", got)
	}
	if _, err := s.Missing([]image.Part{{Name: "../x"}}); err == nil {
		t.Error("a name that leads elsewhere is taken")
	}
	mustStore(t, s, parts[0], "some bytes")
}

// TestStagingTrustsNoFile checks that a file counts as a part only after its bytes were hashed.
func TestStagingTrustsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stagingOf(t, dir)
	parts := partsOf("good", "evil", "cut")
	missing(t, s, parts)
	mustStore(t, s, parts[0], "good")
	for p, text := range map[*image.Part]string{&parts[1]: "EVIL", &parts[2]: "cu"} {
		if err := os.WriteFile(s.path(p.Sum), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"half" + stagingSuffix, strings.Repeat("a", 64) + stagingSuffix} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = stagingOf(t, dir)
	if got := missing(t, s, parts); got != "001 002" {
		t.Errorf("there is missing %q", got)
	}
	if got := list(t, s.dir); len(got) != 1 {
		t.Errorf("there is left %v", got)
	}
}

// TestStagingPins checks that the list of the next snapshot removes no part of the one being installed.
// Afterwards those parts are removed, and the next one's stay.
func TestStagingPins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stagingOf(t, dir)
	first, second := partsOf("a", "b"), partsOf("b", "c")
	missing(t, s, first)
	mustStore(t, s, first[0], "a")
	if n, err := s.pin(first); err != nil || n != 1 || s.pinned != nil {
		t.Errorf("%d are missing, %v", n, err)
	}
	mustStore(t, s, first[1], "b")
	if n, err := s.pin(first); err != nil || n != 0 {
		t.Errorf("%d are missing, %v", n, err)
	}
	if got := missing(t, s, second); got != "001" {
		t.Errorf("of the second there is missing %q", got)
	}
	of := s.source(announcement{manifest: newManifest(at(ours, 9, 1), nil, 1), parts: first}, ours)
	for i, want := range []string{"a", "b"} {
		data, err := readPart(of, first[i])
		if err != nil || string(data) != want {
			t.Errorf("part %d is %q, %v", i, data, err)
		}
		if onDisk, err := os.ReadFile(of.Path(first[i].Name)); err != nil || string(onDisk) != want {
			t.Errorf("the file of part %d is %q, %v", i, onDisk, err)
		}
	}
	if _, err := of.Open("002"); err == nil || of.Path("002") != "" || of.Applied() != at(ours, 9, 1) {
		t.Error("it has what it has not")
	}
	mustStore(t, s, second[1], "c")
	if err := s.unpin(); err != nil {
		t.Fatal(err)
	}
	if got := missing(t, s, second); got != "" || len(list(t, s.dir)) != 2 {
		t.Errorf("of the second there is missing %q, there are %v", got, list(t, s.dir))
	}
	if n, err := s.pin(second); err != nil || n != 0 {
		t.Errorf("%d are missing, %v", n, err)
	}
	if err := s.unpin(); err != nil || len(list(t, dir)) != 0 {
		t.Errorf("in the end there is %v, %v", list(t, dir), err)
	}
}

// TestStagingForgets checks that the parts of an abandoned transfer are removed once the replica follows the
// log again.
func TestStagingForgets(t *testing.T) {
	t.Parallel()
	s := stagingOf(t, t.TempDir())
	parts := partsOf("a", "b")
	missing(t, s, parts)
	mustStore(t, s, parts[0], "a")
	followed := func(want int) {
		t.Helper()
		if err := s.snapshotTaken(); err != nil {
			t.Fatal(err)
		}
		if got := list(t, s.dir); len(got) != want {
			t.Errorf("there is %v", got)
		}
	}
	followed(1)
	mustStore(t, s, parts[1], "b") // the transfer was not abandoned
	followed(2)
	followed(0)
	if err := s.Store(parts[0], strings.NewReader("a")); err == nil {
		t.Error("a part of a forgotten transfer is taken")
	}
}

// holding is a machine that holds files.
type holding struct {
	tape
	dir string
}

func (m *holding) Held(p image.Part) string {
	path := filepath.Join(m.dir, p.Name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// TestStagingAdopts checks that parts held by the machine are linked if their bytes are right.
func TestStagingAdopts(t *testing.T) {
	t.Parallel()
	m := &holding{dir: t.TempDir()}
	parts := partsOf("held", "other", "sent")
	for name, text := range map[string]string{"000": "held", "001": "OTHER"} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newStaging(t.TempDir(), m)
	for range 2 {
		if got := missing(t, s, parts); got != "001 002" {
			t.Errorf("there is missing %q", got)
		}
	}
	if got := list(t, s.dir); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
	// The part stays even if the machine removes its file.
	if err := os.Remove(filepath.Join(m.dir, "000")); err != nil {
		t.Fatal(err)
	}
	mustStore(t, s, parts[1], "other")
	mustStore(t, s, parts[2], "sent")
	if n, err := s.pin(parts); err != nil || n != 0 {
		t.Errorf("%d are missing, %v", n, err)
	}
	data, err := readPart(s.source(announcement{parts: parts}, ours), parts[0])
	if err != nil || !bytes.Equal(data, []byte("held")) {
		t.Errorf("read %q, %v", data, err)
	}
}
