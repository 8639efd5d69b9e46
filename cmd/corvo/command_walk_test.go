package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// toldElsewhere maps the commands that no transcript can contain to the tests that run them.
var toldElsewhere = map[string]string{
	"corvo server": "every test that starts a node",
	"corvo bench":  "its own tests: it takes its time",
	"corvo help":   "cobra",

	"corvo admin import":          "its own tests: it needs a server of Corvo 0.3",
	"corvo cloud billing preview": "its own tests: the amounts depend on the time",
}

// wrongArticle finds "a alert rule", where "an" belongs; not "a one-time".
var wrongArticle = regexp.MustCompile(`\b[Aa] ([aeiAEI]|o[^n])\w+`)

// TestEveryCommandHasATranscript checks that every command has a line in a transcript and a short text.
func TestEveryCommandHasATranscript(t *testing.T) {
	t.Parallel()
	root := newRoot()
	told := map[string]bool{}
	for _, pattern := range []string{"testdata/transcripts/*.txt", "testdata/cloud/*.txt"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				line, ok := strings.CutPrefix(strings.TrimSpace(line), "$ corvo ")
				if !ok {
					continue
				}
				for _, command := range strings.Split(line, " | corvo ") {
					if cmd, _, err := root.Find(shellWords(command)); err == nil {
						told[cmd.CommandPath()] = true
						told[cmd.CommandPath()+" list"] = told[cmd.CommandPath()+" list"] || cmd.HasSubCommands() // by itself
					}
				}
			}
		}
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s does not say what it is", cmd.CommandPath())
		}
		if wrong := wrongArticle.FindString(cmd.Short + cmd.Long); wrong != "" {
			t.Errorf("%s says %q", cmd.CommandPath(), wrong)
		}
		if toldElsewhere[cmd.CommandPath()] != "" {
			return
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
		if !cmd.HasSubCommands() && !told[cmd.CommandPath()] {
			t.Errorf("%s is in no transcript of testdata/transcripts", cmd.CommandPath())
		}
	}
	walk(root)
}

// TestTheDocumentedCommandsAreThere checks that the documented commands exist under their documented names.
func TestTheDocumentedCommandsAreThere(t *testing.T) {
	t.Parallel()
	root := newRoot()
	for _, line := range strings.Split(`enqueue inspect why retry cancel hold approve reject replay iterations held move delete queues pause resume clear drain destroy
search bulk schedules budget limit limits usage workers status top cluster webhooks approval-policy providers prices events admin login cloud completion version server`, "\n") {
		for _, name := range strings.Fields(line) {
			if cmd, _, err := root.Find([]string{name}); err != nil || cmd == root {
				t.Errorf("corvo %s: %v", name, err)
			}
		}
	}
	search, _, _ := root.Find([]string{"search"})
	for _, flag := range strings.Fields("queue state tag payload-contains payload-jq error-contains created-after created-before limit output endpoint api-key") {
		if search.Flag(flag) == nil {
			t.Errorf("corvo search has no --%s", flag)
		}
	}
}
