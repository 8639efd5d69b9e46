package helptest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxShortWords bounds the short text of a command, because it is one line in a list.
const maxShortWords = 12

// Golden compares the texts of every command with a golden file: its short and its long text, its usage and
// its flags. If an earlier command has the same flag with the same words, the file contains only the flag's
// name, because a hundred copies of --endpoint would hide other changes.
func Golden(t *testing.T, newRoot func() *cobra.Command, path string, rewrite bool) {
	t.Helper()
	var out bytes.Buffer
	seen := map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		fmt.Fprintf(&out, "=== %s\n%s\n\n", cmd.UseLine(), describe(cmd, seen))
		for _, below := range cmd.Commands() {
			if below.Name() != "completion" && below.Name() != "help" { // cobra writes their texts
				walk(below)
			}
		}
	}
	walk(newRoot())
	if rewrite {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("the help differs from %s; run this test with -rewrite and read the diff", path)
	}
}

// describe returns the texts of a command. It adds the flags that it shows in full to seen.
func describe(cmd *cobra.Command, seen map[string]bool) string {
	text := cmd.Short
	if cmd.Long != "" {
		text += "\n\n" + cmd.Long
	}
	shown, named := pflag.NewFlagSet("", pflag.ContinueOnError), []string{}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		key := flag.Name + " " + flag.Usage + " " + flag.DefValue
		switch {
		case flag.Name == "help": // cobra writes its text
		case seen[key]:
			named = append(named, "--"+flag.Name)
		default:
			seen[key] = true
			shown.AddFlag(flag)
		}
	})
	if usages := shown.FlagUsages(); usages != "" {
		text += "\n\n" + strings.TrimRight(usages, "\n")
	}
	if len(named) > 0 {
		text += "\n\n      as above: " + strings.Join(named, ", ")
	}
	return text
}

// Shorts fails if a short text is not a heading: it must start with a capital letter, have at most
// maxShortWords words and not end with a full stop.
func Shorts(t *testing.T, newRoot func() *cobra.Command) {
	t.Helper()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if fault := shortFault(cmd.Short); fault != "" {
			t.Errorf("the short text of %s %s: %q", cmd.CommandPath(), fault, cmd.Short)
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRoot())
}

// shortFault returns the fault of a short text, or "".
func shortFault(short string) string {
	switch words := len(strings.Fields(short)); {
	case words == 0:
		return "is missing"
	case words > maxShortWords:
		return fmt.Sprintf("has %d words, want at most %d", words, maxShortWords)
	case !unicode.IsUpper([]rune(short)[0]):
		return "does not start with a capital"
	case strings.HasSuffix(short, "."):
		return "ends with a full stop"
	}
	return ""
}
