package main

import (
	"os"
	"strings"
	"testing"
)

// TestTheGuideOfTheCommandLineIsTrue checks that the commands and flags in the guide exist.
func TestTheGuideOfTheCommandLineIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			continue
		}
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " # ")
			line, _, _ = strings.Cut(line, " > ")
			for _, command := range strings.FieldsFunc(line, func(r rune) bool { return r == '|' || r == '&' }) {
				words := shellWords(command)
				if len(words) == 0 || words[0] != "corvo" {
					continue
				}
				lines++
				root := newRoot()
				cmd, rest, err := root.Find(words[1:])
				if err == nil {
					err = cmd.ParseFlags(rest)
				}
				if err == nil && cmd.Args != nil {
					err = cmd.Args(cmd, cmd.Flags().Args())
				}
				if err != nil && !os.IsNotExist(err) && !strings.Contains(err.Error(), "no such file") {
					t.Errorf("%s: %v", command, err)
				}
			}
		}
	}
	if lines < 20 {
		t.Errorf("the guide has %d commands", lines)
	}
	// The guide must name every command.
	for _, cmd := range newRoot().Commands() {
		if cmd.Name() != "help" && !strings.Contains(string(text), "`"+cmd.Name()) {
			t.Errorf("the guide does not name corvo %s", cmd.Name())
		}
	}
}
