package op_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestStories runs testdata/<op>.txt. A story is a list of steps. A step has commands, one a line, then ---- and
// their outcome, then an empty line. Ops in a row are one entry, up to a line "then"; the other commands change
// the world before it or look at the outcome. After each entry the store must be consistent. At the end a replica
// that was restarted after each entry must be the same byte for byte.
func TestStories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < len(op.Kinds()) {
		t.Errorf("%d stories for %d ops", len(files), len(op.Kinds()))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s tells another story; run with -rewrite if that is meant:\n%s", file, difference(string(text), got))
			}
		})
	}
}

// difference returns the first line in which two texts differ, with its position.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		switch {
		case i >= len(w):
			return fmt.Sprintf("line %d is new: %s", i+1, g[i])
		case i >= len(g):
			return fmt.Sprintf("line %d is gone: %s", i+1, w[i])
		case w[i] != g[i]:
			return fmt.Sprintf("line %d\nwant %s\n got %s", i+1, w[i], g[i])
		}
	}
	return ""
}

// story is a world with names for its records.
type story struct {
	*world
	jobs   map[string]job.ID
	names  map[job.ID]string
	tokens map[string][]byte
	named  map[string]op.Op  // by as=
	queues map[string]string // as last printed
	seen   uint64            // next event to print
	out    strings.Builder
}

// tell runs a story and returns it with the outcomes that came.
func tell(t *testing.T, text string) string {
	s := &story{
		world:  newWorld(t),
		jobs:   map[string]job.ID{},
		names:  map[job.ID]string{},
		tokens: map[string][]byte{},
		queues: map[string]string{},
		named:  map[string]op.Op{},
	}
	for i, step := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			s.out.WriteString("\n")
		}
		script, _, _ := strings.Cut(step+"\n", "----\n")
		s.out.WriteString(script)
		if commands := uncommented(script); len(commands) > 0 {
			s.out.WriteString("----\n")
			s.step(commands)
		}
	}
	s.checkReplica()
	// Ids are the runner's own choice and tell a reader nothing.
	text = s.out.String()
	for id, name := range s.names {
		text = strings.ReplaceAll(text, id.String(), name)
		text = strings.ReplaceAll(text, job.BatchIDText(id), name)
		text = strings.ReplaceAll(text, job.BulkIDText(id), name)
	}
	return text
}

func uncommented(script string) (commands []string) {
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			commands = append(commands, line)
		}
	}
	return commands
}

// step runs the commands of one step, entry by entry.
func (s *story) step(commands []string) {
	for len(commands) > 0 {
		n := slices.Index(commands, "then")
		if n < 0 {
			s.entry(commands)
			return
		}
		s.entry(commands[:n])
		commands = commands[n+1:]
	}
}

// entry runs the commands of one entry.
func (s *story) entry(commands []string) {
	var ops []op.Op
	var names []string
	var looks []func()
	for _, line := range commands {
		name, rest, _ := strings.Cut(line, " ")
		items := parse(s.t, rest)
		if look := s.look(name, items); look != nil {
			looks = append(looks, look)
			continue
		}
		build, ok := builders[name]
		if !ok {
			s.t.Fatalf("unknown command %q", line)
		}
		o := build(s, items)
		if as, ok := items[0].settings["as"]; ok {
			s.named[as] = o
		}
		if err := o.Validate(); err != nil {
			s.printRefusal(name+": invalid", err)
			continue
		}
		ops, names = append(ops, o), append(names, name)
	}
	if len(ops) > 0 {
		for i, result := range s.apply(ops...) {
			if err, refused := result.(error); refused {
				s.printRefusal(names[i]+": refused", err)
				continue
			}
			fmt.Fprintf(&s.out, "%s: %s\n", names[i], s.describe(ops[i], result))
		}
		s.printChanges()
		s.check()
	}
	for _, look := range looks {
		look()
	}
}

func (s *story) printRefusal(what string, err error) {
	var refusal *api.Error
	if !errors.As(err, &refusal) {
		s.t.Fatalf("%s: %v is no *api.Error", what, err)
	}
	fmt.Fprintf(&s.out, "%s %s: %s", what, refusal.Code, refusal.Message)
	if refusal.RetryAfter > 0 {
		fmt.Fprintf(&s.out, " (retry after %s)", refusal.RetryAfter)
	}
	s.out.WriteString("\n")
	if fields, ok := refusal.Details["fields"].([]api.FieldError); ok && len(fields) > 1 {
		for _, f := range fields {
			fmt.Fprintf(&s.out, "  %s %s\n", f.Field, f.Error)
		}
	}
}

// look handles the commands that are no ops: those that change the world at
// once, and those that print something after the entry.
func (s *story) look(name string, items []item) func() {
	first := items[0]
	switch name {
	case "clock":
		s.clockNs += first.duration(s.t, first.words[0]).Nanoseconds()
		return func() { fmt.Fprintf(&s.out, "now %s\n", s.moment(s.clockNs)) }
	case "memory":
		s.machine.Memory = op.Memory{Records: first.number(s.t, "records", 0), Bytes: first.number(s.t, "bytes", 1<<30)}
		return func() {}
	case "job":
		return func() {
			for _, word := range first.words {
				s.printJob(word)
			}
		}
	case "batch":
		return func() { s.printBatches(first.words) }
	case "head":
		return s.printHead
	case "usage":
		return s.printUsage
	case "members":
		return s.printMembers
	case "audit-log":
		return s.printAudit
	case "costs":
		return s.printCosts
	case "book":
		return s.printBook
	case "schedules":
		return s.printSchedules
	case "budgets":
		return s.printBudgets
	case "deliveries":
		return s.printDeliveries
	case "resources":
		return s.printResources
	case "outbox":
		return s.printOutbox
	case "bulks":
		return s.printBulks
	case "forwards":
		return func() { s.printForwards(first.words) }
	case "dependents":
		return func() { s.printDependents(first.words) }
	case "gates":
		return s.printGates
	case "traffic":
		return s.printTraffic
	case "tools":
		return func() { s.printTools(first.words) }
	case "approved":
		return func() { s.printApproved(first.words) }
	case "keys":
		return func() {
			for _, k := range s.store.Keys() {
				fmt.Fprintf(&s.out, "key %s: name %q roles %q scope %q hash %x... created %s%s\n", k.Id, k.Name, k.Roles, k.QueueScope, k.Hash[:4], s.moment(k.CreatedNs), s.keyTerms(k))
			}
		}
	case "life":
		return func() {
			for _, word := range first.words {
				s.printLife(word)
			}
		}
	}
	return nil
}

// moment returns a time in the form of a story.
func (s *story) moment(ns int64) string {
	if ns == 0 {
		return "never"
	}
	return fmt.Sprintf("%+gs", time.Duration(ns-epochNs).Seconds())
}

// item is one part of a command: words and settings, parts are separated by " ; ".
type item struct {
	words    []string
	settings map[string]string
}

func parse(t testing.TB, rest string) []item {
	t.Helper()
	var items []item
	for part := range strings.SplitSeq(rest, ";") {
		it := item{settings: map[string]string{}}
		for _, f := range strings.Fields(part) {
			if k, v, ok := strings.Cut(f, "="); ok {
				it.settings[k] = v
			} else {
				it.words = append(it.words, f)
			}
		}
		items = append(items, it)
	}
	return items
}

func (i item) text(name, otherwise string) string {
	if v, ok := i.settings[name]; ok {
		return v
	}
	return otherwise
}

func (i item) has(word string) bool {
	return slices.Contains(i.words, word)
}

func (i item) number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	v, ok := i.settings[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (i item) duration(t testing.TB, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// millis returns a setting that is a duration, or otherwise if the setting is missing.
func (i item) millis(t testing.TB, name string, otherwise time.Duration) int64 {
	t.Helper()
	if v, ok := i.settings[name]; ok {
		return i.duration(t, v).Milliseconds()
	}
	return otherwise.Milliseconds()
}

// repeated returns n times x for a setting "n*x", so that a story can have a text that is too long to write.
func repeated(text string) string {
	count, what, _ := strings.Cut(text, "*")
	n, err := strconv.Atoi(count)
	if err != nil || len(count) == len(text) {
		return text
	}
	return strings.Repeat(what, n)
}

func (i item) blob(t testing.TB, name string) *job.Blob {
	t.Helper()
	v, ok := i.settings[name]
	if !ok {
		return nil
	}
	return &job.Blob{Data: []byte(repeated(v))}
}

func (i item) usage(t testing.TB) *job.Usage {
	t.Helper()
	u := &job.Usage{
		InputTokens:  int64(i.number(t, "in", 0)),
		OutputTokens: int64(i.number(t, "out", 0)),
		CostNanoUsd:  int64(i.number(t, "cost", 0)),
		CostReported: i.says("cost"),
		Model:        i.text("model", ""),
		Provider:     i.text("provider", ""),
	}
	if u.SizeVT() == 0 {
		return nil
	}
	return u
}

// snapshot runs fn on a snapshot of now.
func (s *story) snapshot(fn func(v *state.Snapshot)) {
	v := s.store.Snapshot()
	defer v.Close()
	fn(v)
}
