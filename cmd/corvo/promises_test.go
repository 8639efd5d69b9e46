package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPromises checks that every command and flag that the documents name exists.
func TestPromises(t *testing.T) {
	t.Parallel()
	promised, err := os.ReadFile("testdata/promises.txt")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	root.InitDefaultCompletionCmd()
	checked := 0
	for line := range strings.Lines(string(promised)) {
		names, verdict, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		var cmd *cobra.Command
		for _, name := range strings.Fields(names) {
			checked++
			if !strings.HasPrefix(name, "--") {
				if cmd, _, err = root.Find([]string{name}); err != nil || cmd == root {
					t.Errorf("there is no command %s", name)
				}
				continue
			}
			flag := cmd.Flag(name[2:])
			switch {
			case strings.HasPrefix(verdict, "superseded by "):
				if flag != nil {
					t.Errorf("%s has the flag %s", cmd.Name(), name)
				}
			case flag == nil:
				t.Errorf("%s has no flag %s", cmd.Name(), name)
			case verdict == "there":
			default:
				code := strings.TrimPrefix(verdict, "refused: ")
				value := map[string]string{"duration": "1s"}[flag.Value.Type()]
				if value == "" {
					value = "x"
				}
				if _, err := load(t, []string{name, value}, nil, ""); err == nil || !strings.Contains(err.Error(), code+": "+name) {
					t.Errorf("%s %s: %v", cmd.Name(), name, err)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d names were read", checked)
	}
}
