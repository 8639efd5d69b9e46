package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// terminal is a pseudo-terminal in which a command runs.
type terminal struct {
	cmd   *exec.Cmd
	pty   *os.File
	ended chan struct{} // the command has closed the terminal

	mu   sync.Mutex
	sent strings.Builder
}

// inTerminal runs a command line in a terminal of a given size.
func inTerminal(t *testing.T, rows, columns uint16, env []string, args ...string) *terminal {
	t.Helper()
	cmd := exec.CommandContext(within(t), proctest.Build(t, "../..", "./cmd/corvo"), args...)
	cmd.Env = append(os.Environ(), env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{cmd: cmd, pty: f, ended: make(chan struct{})}
	go func() {
		defer close(term.ended)
		for buf := make([]byte, 1<<16); ; {
			n, err := f.Read(buf)
			term.mu.Lock()
			term.sent.Write(buf[:n])
			term.mu.Unlock()
			if err != nil {
				return // the last writer has closed the terminal
			}
		}
	}()
	t.Cleanup(func() { cmd.Process.Kill(); f.Close(); <-term.ended })
	return term
}

// stderrOnTerminal runs a command line with a pipe as stdout and a terminal as stderr, and returns the output
// of both.
func stderrOnTerminal(t *testing.T, env []string, args ...string) (shown, out string) {
	t.Helper()
	leader, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer leader.Close()
	cmd := exec.CommandContext(within(t), proctest.Build(t, "../..", "./cmd/corvo"), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = tty
	read := make(chan string)
	go func() {
		all, _ := io.ReadAll(leader) // the read ends with an error after the last writer
		read <- string(all)
	}()
	stdout, err := cmd.Output()
	tty.Close()
	shown = <-read
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, shown)
	}
	return shown, string(stdout)
}

// all returns everything ever sent to the terminal.
func (x *terminal) all() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent.String()
}

var escapePattern = regexp.MustCompile(`\x1b\[[?0-9;]*[A-Za-z]`)

// screen returns the last complete frame on the terminal.
func (x *terminal) screen() string {
	text := x.all()
	end := strings.LastIndex(text, clearBelow)
	if end < 0 {
		return ""
	}
	text = text[:end]
	return escapePattern.ReplaceAllString(text[strings.LastIndex(text, screenHome):], "")
}

// shows waits until the screen matches a pattern.
func (x *terminal) shows(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile("(?s)" + pattern)
	deadline := time.After(time.Minute)
	for !re.MatchString(x.screen()) {
		select {
		case <-deadline:
			t.Fatalf("no %s on the screen:\n%s", pattern, x.screen())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (x *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := x.pty.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestTopInATerminal runs top in a real terminal at a real node: it shows changes, obeys keys, fits the
// terminal, and waits for a stopped node until it is back.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := startServer(t, "--data-dir", dir)
	key := adminKey(t, dir)
	c := newClient(t, node.endpoint, key)
	ctx := within(t)
	for i, queue := range []string{"alpha", "beta", "beta"} {
		if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: queue, Payload: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	top := inTerminal(t, 24, 100, []string{"CORVO_ENDPOINT=" + node.endpoint, "CORVO_API_KEY=" + key}, "top", "--interval", "100ms")
	top.shows(t, `corvo top.*3 pending, 0 active.*QUEUE\^.*alpha +1 .*beta +2 .*WORKER, JOB\^.*q quit`)

	// A worker with its job, live.
	wait := 0
	job, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"alpha"}, WorkerID: "worker-1", Hostname: "box", Timeout: &wait, LeaseDuration: 3600})
	if err != nil || job == nil {
		t.Fatal(job, err)
	}
	top.shows(t, `2 pending, 1 active.*worker-1 +1 +\S+ +box.*\n +`+job.JobID+` .* alpha +1 of 3`)

	// Right selects the next column to sort by, and r reverses the order: the longer queue comes first.
	top.press(t, "\x1b[C")
	top.shows(t, `PENDING\^.*alpha.*beta`)
	top.press(t, "r")
	top.shows(t, `PENDINGv.*beta.*alpha`)
	top.press(t, "\x1b[D\t")
	top.shows(t, `QUEUEv`)

	// A narrow terminal shows the first columns, and top obeys its quit key even in a tiny one.
	if err := pty.Setsize(top.pty, &pty.Winsize{Rows: 12, Cols: 30}); err != nil {
		t.Fatal(err)
	}
	top.shows(t, `QUEUEv +PENDING +ACTIVE +IN/S\r`)
	for _, line := range strings.Split(top.screen(), "\r\n") {
		if len(line) >= 30 {
			t.Errorf("%q has %d characters in 30 columns", line, len(line))
		}
	}
	if err := pty.Setsize(top.pty, &pty.Winsize{Rows: 30, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	top.shows(t, `STATUS`)

	// When the node stops, the screen keeps the last look. Then the node comes back.
	address := strings.TrimPrefix(node.endpoint, "http://")
	node.Kill(t)
	top.shows(t, `NO ANSWER since .*refused.*worker-1`)
	startServer(t, "--data-dir", dir, "--bind", address)
	top.shows(t, `corvo top.*alpha.*worker-1`)

	top.press(t, "q")
	<-top.ended
	if err := top.cmd.Wait(); err != nil {
		t.Errorf("q: %v", err)
	}
	if !strings.HasSuffix(top.all(), leaveScreen) {
		t.Errorf("the terminal is left as %q", top.all()[max(len(top.all())-40, 0):])
	}
}

// TestProgressOnATerminal checks that long work shows a bar on a terminal. The transcripts show that other
// outputs get none.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := startServer(t, "--data-dir", dir)
	key := adminKey(t, dir)
	c := newClient(t, node.endpoint, key)
	ctx := within(t)
	for range 2 {
		if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "mails"}); err != nil {
			t.Fatal(err)
		}
	}
	wait, most := 0, 2
	jobs, err := c.FetchBatch(ctx, api.FetchBatchRequest{FetchRequest: api.FetchRequest{Queues: []string{"mails"}, Timeout: &wait}, Count: &most})
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	x := inTerminal(t, 24, 100, []string{"CORVO_ENDPOINT=" + node.endpoint, "CORVO_API_KEY=" + key}, "drain", "mails")
	for i, says := range []string{"[" + strings.Repeat(".", progressWidth) + "]   0%  2 of mails are active", " 50%  1 of mails are active"} {
		eventually(t, ctx, says, func() bool { return strings.Contains(x.all(), says) })
		if err := c.Ack(ctx, jobs[i].JobID, api.AckRequest{LeaseToken: jobs[i].LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	<-x.ended
	if err := x.cmd.Wait(); err != nil || !strings.HasSuffix(x.all(), "\r\x1b[Kdrained\r\n") {
		t.Errorf("%v: %q", err, x.all())
	}
}

// lookOf makes a look with many queues, and workers with many jobs.
func lookOf(queues, workers, jobs int) look {
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	l := look{At: at}
	for i := range queues {
		l.Queues = append(l.Queues, queueLook{Queue: api.Queue{Name: fmt.Sprintf("queue-%02d", i), Pending: int64(i * i), Status: "active"}})
	}
	for i := range workers {
		w := workerLook{Worker: api.Worker{ID: fmt.Sprintf("worker-%02d", i), Hostname: "박스\x1b[2J\n", LastHeartbeat: api.TimeOf(at)}}
		for j := range jobs {
			w.Jobs = append(w.Jobs, api.Job{ID: fmt.Sprintf("job_%02d_%02d", i, j), Queue: "queue-00", Attempt: 1, MaxRetries: 3})
		}
		l.Workers = append(l.Workers, w)
	}
	return l
}

// TestTheViewFitsEveryTerminal checks that the view fits a terminal of any size, and that a worker's name
// cannot control the terminal.
func TestTheViewFitsEveryTerminal(t *testing.T) {
	t.Parallel()
	for _, l := range []look{lookOf(0, 0, 0), lookOf(1, 1, 1), lookOf(40, 20, 3)} {
		v := newView(l)
		for _, failing := range []error{nil, errors.New("down\nand out")} {
			v.take(looked{l, failing})
			for height := range 40 {
				for width := range 130 {
					lines := v.render(width, height)
					if len(lines) > height {
						t.Fatalf("%d lines of %d", len(lines), height)
					}
					for _, at := range lines {
						if n := columnsOf(at.text); n >= max(width, 2) || strings.ContainsAny(at.text, "\x1b\n") {
							t.Fatalf("%d of %d columns: %q", n, width, at.text)
						}
					}
				}
			}
		}
	}
}

// TestKeysMoveTheView checks that keys scroll the view, but not past its ends.
func TestKeysMoveTheView(t *testing.T) {
	t.Parallel()
	v := newView(lookOf(40, 6, 0))
	text := func() string {
		var all []string
		for _, l := range v.render(100, 20) {
			all = append(all, l.text)
		}
		return strings.Join(all, "\n")
	}
	holds := func(does string, has, lacks string) {
		t.Helper()
		if got := text(); !strings.Contains(got, has) || lacks != "" && strings.Contains(got, lacks) {
			t.Errorf("%s: want %q and no %q:\n%s", does, has, lacks, got)
		}
	}
	holds("at first", "queue-00", "queue-39")
	v.press(keyUp)
	holds("up from the top", "queue-00", "queue-39")
	v.press(keyDown)
	holds("down", "queue-01", "queue-00")
	for range 9 {
		v.press(keyPageDown)
		text()
	}
	holds("down to the end", "queue-39", "queue-01")
	v.press(keyPageUp)
	holds("a page up", "queue-29", "queue-39")
	v.press(keyTurn)
	for range 99 {
		v.press(keyUp)
	}
	holds("the last first", "queue-39", "queue-01")
	v.press(keyRight) // by pending jobs, as numbers
	holds("by number", "1521", "queue-01")
	v.press(keyTab)
	for range 99 {
		v.press(keyRight)
	}
	holds("the last column", "PROGRESS^", "")
	if !v.press(keyQuit) {
		t.Error("q does not end it")
	}
}

// TestKeysAreRead checks that keys are recognised however the terminal splits their bytes.
func TestKeysAreRead(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string][]key{
		"q":                  {keyQuit},
		"\x03":               {keyQuit},
		"\x1b[A\x1b[Bx\t":    {keyUp, keyDown, keyOther, keyTab},
		"\x1bOC\x1b[5~r":     {keyRight, keyPageUp, keyTurn},
		"\x1b[1;5Cq":         {keyOther, keyQuit},
		"\x1b[200~\x1b[201~": {keyOther, keyOther},
		"\xff\x00":           {keyOther, keyOther},
	} {
		whole, rest := readKeys(sent)
		if fmt.Sprint(whole) != fmt.Sprint(want) || rest != "" {
			t.Errorf("%q: %v and %q, want %v", sent, whole, rest, want)
		}
	}
	all, rest := readKeys("\x1b")
	if len(all) > 0 || rest != "\x1b" {
		t.Errorf("half a key: %v, %q", all, rest)
	}
	if all, rest = readKeys(rest + "[D"); len(all) != 1 || all[0] != keyLeft || rest != "" {
		t.Errorf("its other half: %v, %q", all, rest)
	}
}
