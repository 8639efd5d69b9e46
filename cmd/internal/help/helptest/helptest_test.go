package helptest

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/internal/misuse"
)

// tree returns a root with a group of two commands; one takes a word and a flag.
func tree() *cobra.Command {
	root := misuse.Group(&cobra.Command{Use: "tool"})
	things := misuse.Group(&cobra.Command{Use: "things"})
	get := &cobra.Command{Use: "get THING", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return nil }}
	get.Flags().Int("depth", 0, "")
	things.AddCommand(get, &cobra.Command{Use: "test", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}})
	root.AddCommand(things)
	return root
}

// TestFaults checks that a line has a fault if the tree would refuse it, or if it shows another command.
func TestFaults(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"  tool things get 'a b' --depth 2":              "",
		"  tool things get a > file":                     "",
		"  KEY=x tool things get a":                      "",
		"  echo x | tool things get a | wc -l":           "",
		"  tool things get a | tool things test":         "",
		"  tool things get a --dpth 2":                   "unknown flag: --dpth",
		"  tool things get a --depth two":                "invalid argument",
		"  tool things get":                              "accepts 1 arg(s)",
		"  tool things gte a":                            `there is no command "gte"`,
		"  tool frob":                                    `there is no command "frob"`,
		"  tool things get a | tool things test --depth": "unknown flag: --depth",
		"  tool things test":                             "it does not run tool things get",
		"  echo":                                         "it does not run tool things get",
		"tool things get a":                              "indented",
	} {
		got := strings.Join(Faults(tree, "", "tool things get", line), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestShortFault checks that a short text is a heading of at most maxShortWords words.
func TestShortFault(t *testing.T) {
	t.Parallel()
	for short, want := range map[string]string{
		"Show a queue":  "",
		"":              "is missing",
		"show a queue":  "does not start with a capital",
		"Show a queue.": "ends with a full stop",
		"One" + strings.Repeat(" and another", 5):   "",
		"A b" + strings.Repeat(" and another", 5):   "",
		"A b c" + strings.Repeat(" and another", 5): "has 13 words, want at most 12",
	} {
		if got := shortFault(short); got != want {
			t.Errorf("%q: %q, want %q", short, got, want)
		}
	}
}
