package proctest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Step is a curl command of a document and its documented answer.
type Step struct {
	Command string
	// Answer is a part of the expected JSON, or empty if the document shows no answer. A
	// text in capitals, such as "JOB_ID", matches any text and stands for that text in later
	// commands.
	Answer string
}

var (
	answerLine  = regexp.MustCompile(`^#> (.*)$`)
	placeholder = regexp.MustCompile(`^[A-Z][A-Z_]+$`)
	nameInText  = regexp.MustCompile(`\b[A-Z][A-Z_]+\b`)
)

// Steps returns the curl commands in the fenced blocks of a document, in order, each with
// the lines after it that begin with "#> ".
func Steps(t testing.TB, path string) (steps []Step) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			continue
		}
		block = strings.ReplaceAll(block, "\\\n", "")
		found := curlLine.FindAllStringIndex(block, -1)
		for k, at := range found {
			end := len(block)
			if k+1 < len(found) {
				end = found[k+1][0]
			}
			step := Step{Command: strings.Replace(block[at[0]:at[1]], "curl -s", "curl -sS --fail-with-body", 1)}
			for line := range strings.Lines(block[at[1]:end]) {
				if m := answerLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
					step.Answer += m[1]
				}
			}
			steps = append(steps, step)
		}
	}
	return steps
}

// Walk runs a document's commands one after the other and compares the answers with the
// documented ones.
func Walk(t testing.TB, path string, env ...string) {
	t.Helper()
	known, dir := map[string]string{}, t.TempDir() // for files that the commands write
	for _, step := range Steps(t, path) {
		command := "cd " + dir + " && " + substituted(step.Command, known)
		answer := Paste(t, command, env...)
		if step.Answer == "" {
			continue
		}
		var want, got any
		if err := json.Unmarshal([]byte(step.Answer), &want); err != nil {
			t.Fatalf("%s: after %s: %s: %v", path, step.Command, step.Answer, err)
		}
		if err := json.Unmarshal(answer, &got); err != nil {
			t.Fatalf("%s\nanswered %s: %v", command, answer, err)
		}
		if err := within(want, got, known); err != nil {
			t.Fatalf("%s\nanswered %s\n%s says %s: %v", command, answer, path, step.Answer, err)
		}
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

// within returns an error that locates the first difference between a documented answer and
// the real one. The real answer may have additional members.
func within(want, got any, known map[string]string) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", got)
		}
		for name, value := range want {
			name = substituted(name, known) // such as the id of a job, in an answer by job
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
