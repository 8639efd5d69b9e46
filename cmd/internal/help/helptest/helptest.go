// Package helptest checks the help of a binary's commands.
package helptest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxLines bounds an example, because help is read at a glance.
const maxLines = 2

// Examples fails if a runnable command has no example, and if the tree would refuse an example.
func Examples(t *testing.T, newRoot func() *cobra.Command) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() {
			lines := strings.Split(cmd.Example, "\n")
			if cmd.Example == "" {
				lines = nil
			}
			if len(lines) < 1 || len(lines) > maxLines {
				t.Errorf("%s has %d lines of examples, want 1 to %d", cmd.CommandPath(), len(lines), maxLines)
			}
			for _, line := range lines {
				for _, fault := range Faults(newRoot, secret, cmd.CommandPath(), line) {
					t.Errorf("%s: %q: %s", cmd.CommandPath(), line, fault)
				}
			}
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRoot())
}

// Faults returns all faults of one line of the example of the command at path. The file secret stands in for
// a file that a flag reads and that does not exist.
func Faults(newRoot func() *cobra.Command, secret, path, line string) (faults []string) {
	if !strings.HasPrefix(line, "  ") || line != "  "+strings.TrimSpace(line) {
		faults = append(faults, "it is not indented by two spaces")
	}
	shown := false
	name := newRoot().Name()
	for _, words := range commands(line) {
		if words[0] != name {
			continue
		}
		root := newRoot()
		cmd, rest, err := root.Find(words[1:])
		if err == nil {
			err = parse(cmd, rest, secret)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err == nil && cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
			err = cmd.RunE(cmd, cmd.Flags().Args()) // a group's error names the unknown command
		}
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		shown = shown || cmd.CommandPath() == path || cmd.HasParent() && strings.HasPrefix(cmd.CommandPath(), path+" ")
	}
	if !shown {
		faults = append(faults, "it does not run "+path)
	}
	return faults
}

// parse reads a command's flags. It replaces the name of a missing file by secret.
func parse(cmd *cobra.Command, words []string, secret string) error {
	err := cmd.ParseFlags(words)
	var unread *pflag.InvalidValueError
	if !errors.As(err, &unread) || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	words = slices.Clone(words)
	if at := slices.Index(words, unread.GetValue()); at >= 0 {
		words[at] = secret
	}
	return cmd.ParseFlags(words)
}

var wordPattern = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)

// commands splits a line at pipes and && into the words of its commands, without redirections and without the
// variables that are set before a command.
func commands(line string) (all [][]string) {
	all = [][]string{nil}
	words := wordPattern.FindAllString(line, -1)
	for i := 0; i < len(words); i++ {
		last := len(all) - 1
		switch words[i] {
		case "|", "&&":
			all = append(all, nil)
		case "<", ">":
			i++ // the file
		default:
			if len(all[last]) == 0 && strings.Contains(words[i], "=") {
				continue
			}
			all[last] = append(all[last], strings.NewReplacer("'", "", `"`, "").Replace(words[i]))
		}
	}
	out := all[:0]
	for _, words := range all {
		if len(words) > 0 {
			out = append(out, words)
		}
	}
	return out
}
