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
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestTranscripts runs the commands of each file of testdata/transcripts at a real node of its own, and
// compares their output with the file.
//
// A line is a command in shell quotes, "$ corvo ...", or two with a pipe between them, "$ corvo ... | corvo
// ...", or a request without a command, "METHOD /path body". A mask of the same width replaces each id by its
// ordinal among its kind and each time by zeros; "exit 2" is the exit code of a failed command. For a pipe,
// the file shows only the reader's output and exit code, as a shell does.
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
			s := newTranscript(t, p.endpoint, "CORVO_API_KEY="+adminKey(t, dir))
			s.key = adminKey(t, dir)
			s.places["NEW_FILE"] = filepath.Join(t.TempDir(), "new")
			c := newClient(t, p.endpoint, s.key)
			eventually(t, t.Context(), "a search", func() bool { _, err := c.Search(t.Context(), api.SearchRequest{}, client.Read{}); return err == nil })
			s.hold(t, path, string(want))
		})
	}
}

// TestTheCloudsTranscripts runs the commands of testdata/cloud at a cloud of its own, as TestTranscripts does
// at a node.
func TestTheCloudsTranscripts(t *testing.T) {
	t.Parallel()
	path := "testdata/cloud/cloud.txt"
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := proctest.Start(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"), "try: ", "dev", "--bind", "127.0.0.1:0", "--data-dir", dir, "--log-level", "warn"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "dev.env"))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	s := newTranscript(t, env["CORVO_ENDPOINT"])
	s.key = env["CORVO_CLOUD_TOKEN"]
	// The control plane applies a gateway's count of requests some seconds later.
	s.optional = regexp.MustCompile(`, as of 0000-00-00T00:00:00Z|,"as_of":"0000-00-00T00:00:00Z"`)
	s.places["TOKEN_FILE"] = filepath.Join(t.TempDir(), "token")
	s.places["OPERATOR_FILE"] = filepath.Join(dir, "secrets", "operator")
	s.places["NEW_FILE"] = filepath.Join(t.TempDir(), "new")
	if err := os.WriteFile(s.places["TOKEN_FILE"], []byte(env["CORVO_CLOUD_TOKEN"]), 0o600); err != nil {
		t.Fatal(err)
	}
	s.hold(t, path, string(want))
}

// hold plays a transcript and compares its output with the file.
func (s *transcript) hold(t *testing.T, path, want string) {
	t.Helper()
	got := s.play(t, want)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("%s is not what is printed; look at the difference and run with -rewrite:\n%s", path, got)
	}
}

// transcript is a run of commands at one node.
type transcript struct {
	endpoint, key string
	env           []string
	places        map[string]string // words that stand for paths
	masks         map[string]string // masks by id
	counts        map[string]int    // ids so far, by their prefix
	optional      *regexp.Regexp    // output that depends on the server's progress; nil = nothing
}

func newTranscript(t *testing.T, endpoint string, env ...string) *transcript {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	env = append(env, "CORVO_ENDPOINT="+endpoint, "XDG_CONFIG_HOME="+t.TempDir())
	return &transcript{endpoint: endpoint, env: env, places: map[string]string{"WORKING_DIR": dir}, masks: map[string]string{}, counts: map[string]int{}}
}

// request matches a line that is sent as it is.
var request = regexp.MustCompile(`^(GET|POST|PUT|DELETE) (/\S+) ?(.*)$`)

// play runs the commands and requests of a transcript and returns the transcript with their current output.
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

// run runs a command, or several in a pipe. It returns the output and exit code of the last.
func (s *transcript) run(t *testing.T, line string) (a answer) {
	t.Helper()
	var stdin io.Reader
	for i, command := range strings.Split(line, " | corvo ") {
		words := shellWords(command)
		if i == 0 {
			words = words[1:]
		}
		before := a.stderr
		a = corvoFed(t, stdin, s.env, words...)
		stdin, a.stderr = strings.NewReader(a.stdout), before+a.stderr
	}
	return a
}

// send makes a request that must succeed and returns its answer.
func (s *transcript) send(t *testing.T, method, path, body string) string {
	t.Helper()
	if !strings.HasPrefix(path, "/cloud/") {
		path = "/api/v1" + path
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.endpoint+path, bytes.NewReader([]byte(body)))
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
	idPattern = regexp.MustCompile(`\b(job|bulk|sched|price|pol|alert|hook|dlv|key|tok|org|ns|host|store|op|req|cr|uc)_[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}\b`)
	// The ids of API keys have no prefix, so that only their place identifies them.
	keyPattern     = regexp.MustCompile(`(?m)(^ID +|^(GRANTED|PROPOSED|APPROVED) BY +|: key |Z by )\b[A-Za-z0-9]{16}\b`)
	addressPattern = regexp.MustCompile(`http://127\.0\.0\.1:\d{2,}`)
	hashPattern    = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	// An entry of a log: the number of entries before it depends on the duties of the leader.
	entryPattern = regexp.MustCompile(`\b\d+ \(term \d+\)`)
	// A time in JSON has as many decimals as it needs.
	timePattern = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

// mask replaces the parts that differ from run to run.
func (s *transcript) mask(text string) string {
	text = idPattern.ReplaceAllStringFunc(text, func(id string) string {
		if s.masks[id] == "" {
			prefix, _, _ := strings.Cut(id, "_")
			s.counts[prefix]++
			s.masks[id] = fmt.Sprintf("%s_%026d", prefix, s.counts[prefix])
		}
		return s.masks[id]
	})
	text = keyPattern.ReplaceAllStringFunc(text, func(line string) string {
		id := line[strings.LastIndexByte(line, ' ')+1:]
		if s.masks[id] == "" {
			s.counts["API key"]++
			s.masks[id] = fmt.Sprintf("KEY%013d", s.counts["API key"])
		}
		return line
	})
	for id, mask := range s.masks {
		text = strings.ReplaceAll(text, id, mask)
	}
	text = timePattern.ReplaceAllString(text, "0000-00-00T00:00:00Z")
	text = entryPattern.ReplaceAllString(text, "0 (term 0)")
	text = hashPattern.ReplaceAllString(text, strings.Repeat("0", 64))
	if s.optional != nil {
		text = s.optional.ReplaceAllString(text, "")
	}
	for word, path := range s.places {
		text = strings.ReplaceAll(text, path, word)
	}
	return addressPattern.ReplaceAllString(text, "http://127.0.0.1:8080")
}

// unmask replaces masks by the values of this run.
func (s *transcript) unmask(line string) string {
	for word, path := range s.places {
		line = strings.ReplaceAll(line, word, path)
	}
	for id, mask := range s.masks {
		line = strings.ReplaceAll(line, mask, id)
	}
	return line
}

var wordPattern = regexp.MustCompile(`(?:[^\s']|'[^']*')+`)

// shellWords splits a command line, some of whose words are in single quotes.
func shellWords(line string) []string {
	all := wordPattern.FindAllString(line, -1)
	for i, word := range all {
		all[i] = strings.ReplaceAll(word, "'", "")
	}
	return all
}
