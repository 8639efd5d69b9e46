package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/internal/misuse"
)

// Every mark of a layout is recognised, in a directory whose name looks like a pattern
// as well, and only a process of that kind is let in.
func TestCheckRefusesTheDirectoryOfAnotherKind(t *testing.T) {
	t.Parallel()
	for _, held := range layouts {
		for _, mark := range held.marks {
			dir := filepath.Join(t.TempDir(), "a[b]*")
			file := filepath.Join(dir, strings.ReplaceAll(mark, "*", "x"))
			if err := os.MkdirAll(file, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, want := range layouts {
				if want.kind == Original {
					continue // nothing of ours asks for it
				}
				err := Check(dir, want.kind)
				if want.kind == held.kind {
					if err != nil {
						t.Errorf("%s in its own directory (%s): %v", want.kind, mark, err)
					}
					continue
				}
				if !misuse.Is(err) {
					t.Fatalf("%s in the directory of a %s (%s): %v", want.kind, held.kind, mark, err)
				}
				for _, part := range []string{string(held.kind), file, "--data-dir " + want.other, held.advice(dir)} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%v does not say %q", err, part)
					}
				}
			}
		}
	}
}

// A fresh directory, a missing one and one with other files in it belong to nobody.
func TestCheckLetsAnybodyIntoAFreshDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lost+found"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, l := range layouts {
		for _, dir := range []string{dir, filepath.Join(dir, "missing")} {
			if err := Check(dir, l.kind); err != nil {
				t.Errorf("%s: %v", l.kind, err)
			}
		}
	}
}
