package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// secretOut is where a secret goes that an answer has once. With it the secret is not
// printed, and so in no terminal's history and no log of a build.
type secretOut struct{ path string }

func (s *secretOut) bind(cmd *cobra.Command) {
	bindText(cmd.Flags(), &s.path, "secret-file", "new file for the secret (default: print it)")
}

// issue asks for an answer with a secret, and takes that out of it where there is a file
// for it.
func issue[A any](s *secretOut, ask func() (A, error), secretOf func(*A) *string) (a A, err error) {
	if s.path == "" {
		return ask()
	}
	// There is a place for the secret before there is one.
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
