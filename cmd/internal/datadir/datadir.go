// Package datadir tells the data directories of our processes apart, so that no
// process writes into the directory of another kind.
package datadir

import (
	"fmt"
	"path/filepath"

	"github.com/corvo/corvo/cmd/internal/misuse"
)

// Kind is the kind of process that a data directory belongs to.
type Kind string

// The kinds of data directories.
const (
	Node         Kind = "node"
	DevCloud     Kind = "development cloud"
	ControlPlane Kind = "control plane"
	Gateway      Kind = "gateway"
	Host         Kind = "cloud host"
	Original     Kind = "Corvo 0.3" // none of our processes opens it
)

// layout describes how to recognise and use a kind of directory.
type layout struct {
	kind    Kind
	marks   []string // patterns of paths below the directory; any one of them identifies the kind
	command string   // starts a process on the directory; "" if only an import reads it
	other   string   // an example of a directory for a process of this kind
}

// layouts are in the order in which they are tried. A development cloud comes
// first because it contains a control plane, and a host comes before a node because
// both keep namespaces below ns.
var layouts = []layout{
	{Original, []string{"corvo.db", "jobbie.db"}, "", ""},
	{DevCloud, []string{"dev.env", "secrets/operator"}, "corvo-cloud dev", "./cloud-data"},
	{ControlPlane, []string{"operator.key", "controlplane"}, "corvo-cloud server", "./control-data"},
	{Gateway, []string{"gateway"}, "corvo-cloud gateway", "./gateway-data"},
	{Host, []string{"store.json", "catalogue", "ns/ns_*"}, "corvo-cloud host", "./host-data"},
	{Node, []string{"admin.key", "ns/default", "LOCK"}, "corvo server", "./node-data"},
}

// Check refuses a directory that holds the data of another kind of process. An
// empty directory, a missing one and one with unknown files in it pass.
func Check(dir string, want Kind) error {
	held, mark, err := find(dir)
	if err != nil || held.kind == "" || held.kind == want {
		return err
	}
	other := ""
	for _, l := range layouts {
		if l.kind == want {
			other = l.other
		}
	}
	return misuse.Errorf("--data-dir is %q, which holds the data of a %s (%s), not of a %s: give another directory, such as --data-dir %s; %s",
		dir, held.kind, mark, want, other, held.advice(dir))
}

// advice returns the command that uses the data in a directory.
func (l layout) advice(dir string) string {
	if l.command == "" {
		return "then copy from the running 0.3 with corvo admin import --from-0.3 URL"
	}
	return fmt.Sprintf("%s --data-dir %s uses the existing data", l.command, dir)
}

// find returns the layout of a directory and the file that identifies it; a zero layout if no file does.
func find(dir string) (held layout, mark string, err error) {
	for _, l := range layouts {
		for _, pattern := range l.marks {
			found, err := filepath.Glob(filepath.Join(escape(dir), pattern))
			if err != nil {
				return layout{}, "", fmt.Errorf("--data-dir %q: %w", dir, err)
			}
			if len(found) > 0 {
				return l, found[0], nil
			}
		}
	}
	return layout{}, "", nil
}

// escape quotes the characters of a path that have a meaning in a pattern.
func escape(path string) string {
	var out []byte
	for _, c := range []byte(path) {
		if c == '*' || c == '?' || c == '[' || c == '\\' {
			out = append(out, '\\')
		}
		out = append(out, c)
	}
	return string(out)
}
