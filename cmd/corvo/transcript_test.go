package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// TestTranscripts has the commands of testdata/transcripts run at a real node, each
// file at one of its own, and holds what they print against what is written there.
//
// A line is a command in quotes as a shell has them, "$ corvo ...", or two with a pipe
// between them, "$ corvo ... | corvo ...", or a request that
// has no command, "METHOD /path body". Ids are written as which of their
// kind they are, times as zeros, all as wide as they
// are; "exit 2" is how a command ends that fails.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			p := startServer(t, "--data-dir", dir)
			s := &transcript{endpoint: p.endpoint, key: adminKey(t, dir), masks: map[string]string{}, counts: map[string]int{}}
			c := newClient(t, p.endpoint, s.key)
			eventually(t, t.Context(), "a search", func() bool { _, err := c.Search(t.Context(), api.SearchRequest{}, client.Read{}); return err == nil })
			got := s.play(t, string(want))
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("%s is not what is printed; look at the difference and run with -rewrite:\n%s", path, got)
			}
		})
	}
}

// transcript is a run of commands at one node.
type transcript struct {
	endpoint, key string
	masks         map[string]string // ids, and what stands for them
	counts        map[string]int    // ids so far, by their prefix
}

// request is a line that is sent as it is.
var request = regexp.MustCompile(`^(GET|POST|PUT|DELETE) (/\S+) ?(.*)$`)

// play runs the lines of a transcript that are no output and answers it with what
// they print now.
func (s *transcript) play(t *testing.T, text string) string {
	t.Helper()
	var got strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		asked := s.unmask(line)
		switch {
		case strings.HasPrefix(line, "#"):
			fmt.Fprintf(&got, "\n%s", line)
		case strings.HasPrefix(line, "$ corvo"):
			fmt.Fprintf(&got, "\n%s\n", line)
			a := s.run(t, strings.TrimPrefix(asked, "$ "))
			got.WriteString(s.mask(a.stdout + a.stderr))
			if a.code != 0 {
				fmt.Fprintf(&got, "exit %d\n", a.code)
			}
		case request.MatchString(asked):
			fmt.Fprintf(&got, "\n%s\n", line)
			parts := request.FindStringSubmatch(asked)
			s.mask(s.send(t, parts[1], parts[2], parts[3]))
		}
	}
	return strings.TrimPrefix(got.String(), "\n")
}

// run has a command done, or several of which each reads what the one before it prints:
// of those what the last one prints counts, and how it ends.
func (s *transcript) run(t *testing.T, line string) (a answer) {
	t.Helper()
	var stdin io.Reader
	for i, command := range strings.Split(line, " | corvo ") {
		words := shellWords(command)
		if i == 0 {
			words = words[1:]
		}
		before := a.stderr
		a = corvoFed(t, stdin, []string{"CORVO_ENDPOINT=" + s.endpoint, "CORVO_API_KEY=" + s.key}, words...)
		stdin, a.stderr = strings.NewReader(a.stdout), before+a.stderr
	}
	return a
}

// send makes a request that works and gives its answer.
func (s *transcript) send(t *testing.T, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.endpoint+"/api/v1"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 299 {
		t.Fatalf("%s %s: %s %v", method, path, answer, err)
	}
	return string(answer)
}

var (
	idPattern = regexp.MustCompile(`\b(job|bulk|sched|price|pol|alert|hook|dlv)_[0-9A-HJKMNP-TV-Z]{26}\b`)
	// A time in JSON has as many decimals as it needs.
	timePattern = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

// mask replaces what differs from run to run.
func (s *transcript) mask(text string) string {
	text = idPattern.ReplaceAllStringFunc(text, func(id string) string {
		if s.masks[id] == "" {
			prefix, _, _ := strings.Cut(id, "_")
			s.counts[prefix]++
			s.masks[id] = fmt.Sprintf("%s_%026d", prefix, s.counts[prefix])
		}
		return s.masks[id]
	})
	text = timePattern.ReplaceAllString(text, "0000-00-00T00:00:00Z")
	return strings.ReplaceAll(text, s.endpoint, "http://127.0.0.1:8080")
}

// unmask is what a line of a transcript says here.
func (s *transcript) unmask(line string) string {
	for id, mask := range s.masks {
		line = strings.ReplaceAll(line, mask, id)
	}
	return line
}

var wordPattern = regexp.MustCompile(`(?:[^\s']|'[^']*')+`)

// shellWords are the words of a command line, of which some are in single quotes.
func shellWords(line string) []string {
	all := wordPattern.FindAllString(line, -1)
	for i, word := range all {
		all[i] = strings.ReplaceAll(word, "'", "")
	}
	return all
}
