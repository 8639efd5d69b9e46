// Package help shapes the help of our commands: it adds an example to each command, and breaks lines so that
// they fit the terminal.
package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Examples gives the commands of a tree their examples. examples maps the path of a command below the root to
// its command lines; the root's path is "". Examples panics for a path without a command, because that is a
// mistake of the program.
func Examples(root *cobra.Command, examples map[string]string) {
	for path, lines := range examples {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			panic(fmt.Sprintf("an example is for %s %s, which is no command", root.Name(), path))
		}
		cmd.Example = "  " + strings.ReplaceAll(lines, "\n", "\n  ")
	}
}
