package helptest

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/internal/help"
)

// Widths renders the help of every command at both bounds of the width. It fails if a line is longer than the
// width, or if the two do not have the same words.
func Widths(t *testing.T, newRoot func() *cobra.Command) {
	t.Helper()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		narrow, wide := render(t, cmd, help.MinWidth), render(t, cmd, help.MaxWidth)
		if a, b := strings.Join(strings.Fields(narrow), " "), strings.Join(strings.Fields(wide), " "); a != b {
			t.Errorf("%s says at %d columns\n%s\nand at %d\n%s", cmd.CommandPath(), help.MinWidth, narrow, help.MaxWidth, wide)
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRoot())
}

// render returns a command's help at a width. It fails for a longer line, unless people paste that line.
func render(t *testing.T, cmd *cobra.Command, width int) string {
	t.Helper()
	var out bytes.Buffer
	help.Wrap(cmd.Root(), width)
	cmd.SetOut(&out)
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimRight(line, "\n")
		whole := strings.HasPrefix(line, "  "+cmd.Root().Name()) || strings.Contains(cmd.Example, line) || strings.HasPrefix(line, "\t") || !strings.Contains(strings.TrimSpace(line), " ")
		if n := utf8.RuneCountInString(line); n > width && !whole {
			t.Errorf("%s at %d columns has a line of %d: %s", cmd.CommandPath(), width, n, line)
		}
	}
	return out.String()
}
