package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// secretOut is the file for a secret that an answer contains once. With it the secret is not printed, so that
// no terminal's history and no build log holds it.
type secretOut struct{ path string }

func (s *secretOut) bind(cmd *cobra.Command) {
	bindText(cmd.Flags(), &s.path, "secret-file", "new file for the secret (default: print it)")
}

// issue requests an answer with a secret and, if a file is set, moves the secret to the file.
func issue[A any](s *secretOut, ask func() (A, error), secretOf func(*A) *string) (a A, err error) {
	if s.path == "" {
		return ask()
	}
	// Create the file before the secret exists.
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return a, misusef("--secret-file: %w", err)
	}
	if a, err = ask(); err != nil {
		return a, errors.Join(err, f.Close(), os.Remove(s.path))
	}
	_, err = fmt.Fprintln(f, *secretOf(&a))
	if err = errors.Join(err, f.Close()); err == nil {
		*secretOf(&a) = ""
	}
	return a, err
}
