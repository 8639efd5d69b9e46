// Package help decides how our commands show their help: an example for every command,
// and lines that fit the terminal.
package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Examples gives the commands of a tree their examples, command lines by the path of the
// command below the root; the root's path is "". An example of no command is a mistake of
// the program.
func Examples(root *cobra.Command, examples map[string]string) {
	for path, lines := range examples {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			panic(fmt.Sprintf("an example is for %s %s, which is no command", root.Name(), path))
		}
		cmd.Example = "  " + strings.ReplaceAll(lines, "\n", "\n  ")
	}
}
