package proctest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Step is a command of a document and its documented answer.
type Step struct {
	Command string
	// Answer is a part of the expected JSON or text, or empty if the document shows no answer.
	// A text in capitals, such as "JOB_ID", matches any text and stands for that text in later
	// commands.
	Answer string
	// Where is empty if the command works wherever the reader is, and names a place such as
	// Node if a comment such as "# on a node:" precedes the command in its block.
	Where string
}

// The places of commands that tests run. A document names others, such as "node-1", for
// commands that need machines of their own.
const (
	Cloud = "a cloud"
	Node  = "a node"
)

var (
	answerLine  = regexp.MustCompile(`^#> (.*)$`)
	whereLine   = regexp.MustCompile(`^# on (.*):$`)
	placeholder = regexp.MustCompile(`^[A-Z][A-Z_]+$`)
	nameInText  = regexp.MustCompile(`\b[A-Z][A-Z_]+\b`)
	fence       = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	// shellLine matches a comment, a function over several lines, or a command, which may continue on the next line
	// within quotes.
	shellLine = regexp.MustCompile(`(?m)^#.*$|^\w+\(\) \{(?:\n  .*)+\n\}$|^(?:[^'\n]|'[^']*')+$`)
)

// Steps returns all commands in the fenced blocks of a document that have no language or a
// shell's, in order, each with the lines after it that begin with "#> ".
func Steps(t testing.TB, path string) (steps []Step) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains([]string{"", "sh", "bash"}, block[1]) {
			continue
		}
		lines, where, first := strings.ReplaceAll(block[2], "\\\n", ""), "", len(steps)
		if rest := strings.TrimSpace(shellLine.ReplaceAllString(lines, "")); rest != "" {
			t.Fatalf("%s: a quote is not closed in\n%s", path, rest)
		}
		for _, line := range shellLine.FindAllString(lines, -1) {
			if m := whereLine.FindStringSubmatch(line); m != nil {
				where = m[1]
			} else if m := answerLine.FindStringSubmatch(line); m != nil {
				if len(steps) == first {
					t.Fatalf("%s: nothing answers %s", path, line)
				}
				steps[len(steps)-1].Answer += m[1]
			} else if !strings.HasPrefix(line, "#") {
				steps = append(steps, Step{Command: line, Where: where})
			}
		}
	}
	return steps
}

// Walk runs in the directory dir those commands of a document whose Where is empty or equal to where, one
// after the other. It compares the answers with the documented ones and returns the number of commands that
// it ran.
func Walk(t testing.TB, path, where, dir string, env ...string) (ran int) {
	t.Helper()
	return walk(t, path, where, func(command string) []byte { return pasteIn(t, dir, command, env...) })
}

// walk is Walk with a shell that runs a command and returns its output.
func walk(t testing.TB, path, where string, shell func(command string) []byte) (ran int) {
	t.Helper()
	known := map[string]string{}
	for _, step := range Steps(t, path) {
		if step.Where == "" || step.Where == where {
			step.run(t, path, known, shell)
			ran++
		}
	}
	return ran
}

// Run runs the command in a directory and compares its answer with the documented one. It adds to known the
// texts that the answer has in place of names. An error answer makes curl fail.
func (step Step) Run(t testing.TB, path, dir string, known map[string]string, env ...string) {
	t.Helper()
	step.run(t, path, known, func(command string) []byte { return pasteIn(t, dir, command, env...) })
}

func pasteIn(t testing.TB, dir, command string, env ...string) []byte {
	t.Helper()
	return Paste(t, "cd '"+dir+"' && "+command, env...)
}

// run is Run with a shell that runs a command and returns its output.
func (step Step) run(t testing.TB, path string, known map[string]string, shell func(command string) []byte) {
	t.Helper()
	command := strings.Replace(substituted(step.Command, known), "curl -s", "curl --fail-with-body -sS", 1)
	answer := shell(command)
	text := strings.TrimSpace(string(answer))
	var want, got any
	if placeholder.MatchString(step.Answer) {
		want, got = step.Answer, text
	} else if json.Unmarshal([]byte(step.Answer), &want) != nil { // a text, or none
		if !strings.Contains(text, step.Answer) {
			t.Fatalf("%s\nprinted %s\n%s says %s", command, answer, path, step.Answer)
		}
		return
	} else if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatalf("%s\nanswered %s: %v", command, answer, err)
	}
	if err := within(want, got, known); err != nil {
		t.Fatalf("%s\nanswered %s\n%s says %s: %v", command, answer, path, step.Answer, err)
	}
}

// substituted replaces the names in a text by their values.
func substituted(text string, known map[string]string) string {
	return nameInText.ReplaceAllStringFunc(text, func(name string) string {
		if of, ok := known[name]; ok {
			return of
		}
		return name
	})
}

// others, at the end of a list, stands for elements that the document does not show.
const others = "..."

// among returns an error if one of the wanted elements is not in a list, in any order.
func among(want, list []any, known map[string]string) error {
	for i, element := range want {
		err := fmt.Errorf("the list is empty")
		for _, candidate := range list {
			learned := maps.Clone(known)
			if err = within(element, candidate, learned); err == nil {
				maps.Copy(known, learned)
				break
			}
		}
		if err != nil {
			return fmt.Errorf("%d is not in the list: %w", i, err)
		}
	}
	return nil
}

// within returns an error that locates the first difference between a documented answer and the real one, and
// adds to known the texts that names stand for. The real answer may have additional members.
func within(want, got any, known map[string]string) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", got)
		}
		for name, value := range want {
			name = substituted(name, known) // such as JOB_ID in an answer whose members are the ids of jobs
			if err := within(value, object[name], known); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if ok && len(want) > 0 && want[len(want)-1] == others {
			return among(want[:len(want)-1], list, known)
		}
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%v has not %d elements", got, len(want))
		}
		for i := range want {
			if err := within(want[i], list[i], known); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	case string:
		if text, ok := got.(string); ok && placeholder.MatchString(want) {
			if before, again := known[want]; again && before != text {
				return fmt.Errorf("%s was %q and is %q", want, before, text)
			}
			known[want] = text
			return nil
		}
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%v is not %v", got, want)
	}
	return nil
}
