package allinone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/durable"
)

// hostProcess runs a host of the cloud as a process of its own, and starts it again whenever it ends.
type hostProcess struct {
	name    string // of its directory, in the log and in errors
	dir     string
	flags   []string                                             // of `corvo-cloud host`, besides those of ports
	command func(ctx context.Context, flags ...string) *exec.Cmd // see Config.HostCommand
	log     io.WriteCloser                                       // gets the output of the process
	grace   time.Duration                                        // longest time of an orderly end
	logger  *slog.Logger

	url       string                 // where it listens, once opened has nil
	opened    chan error             // gets nil when the first process listens, or the reason why it does not
	listening atomic.Bool            // the first process listens
	last      atomic.Pointer[string] // last line that the process wrote to standard error
}

// hostPorts lists the ports of a host: the flag of its address, and the words of the process before its URL or address. The
// address is kept in a file with the name of the flag in the directory of the host, so that the host has it again
// after a restart.
var hostPorts = []struct{ flag, says string }{
	{"bind", "the host listens on "},
	{"raft-bind", "other hosts reach it at "},
}

// pidFile is the name of the file with the number of the process in the directory of a host.
const pidFile = "pid"

// The waits before a process that has ended is started again: the first one, which doubles, and the longest. After a
// process that ran for steadyAfter, they begin again with the first one.
const (
	firstRestart = 100 * time.Millisecond
	lastRestart  = 10 * time.Second
	steadyAfter  = time.Minute
)

// run runs the process until ctx ends, and again whenever it ends before. It returns at once if the first process ends
// before it listens, because the next one would fail for the same reason.
func (h *hostProcess) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, h.log.Close()) }()
	for wait := firstRestart; ; wait = min(2*wait, lastRestart) {
		began := time.Now()
		err := h.runOnce(ctx)
		if ctx.Err() != nil {
			if exit := new(exec.ExitError); errors.As(err, &exit) {
				h.logger.Warn("the process of a host did not end in order", "host", h.name, "error", err, "last_line", h.lastLine())
			}
			return ctx.Err()
		}
		if !h.listening.Load() {
			err = fmt.Errorf("%s ended before it listened (%v): %s", h.name, err, h.lastLine())
			h.opened <- err
			return err
		}
		if time.Since(began) > steadyAfter {
			wait = firstRestart
		}
		h.logger.Warn("the process of a host ended, and is started again", "host", h.name, "error", err, "last_line", h.lastLine(), "in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// runOnce runs one process until it ends. When ctx ends, runOnce closes the standard input of the process, so that the
// process shuts down, and kills it after the grace.
func (h *hostProcess) runOnce(ctx context.Context) error {
	flags := h.flags
	for _, port := range hostPorts {
		flags = append(flags[:len(flags):len(flags)], "--"+port.flag, h.keptAddress(port.flag))
	}
	cmd := h.command(ctx, flags...)
	separate(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel, cmd.WaitDelay = stdin.Close, h.grace
	missing := len(hostPorts)
	cmd.Stdout = &lineWriter{each: func(line string) {
		h.write(line)
		for _, port := range hostPorts {
			if text, ok := strings.CutPrefix(line, port.says); ok {
				h.keepAddress(port.flag, text)
				missing--
			}
		}
		if missing == 0 && h.listening.CompareAndSwap(false, true) {
			h.opened <- nil
		}
	}}
	cmd.Stderr = &lineWriter{each: func(line string) {
		h.write(line)
		h.last.Store(&line)
	}}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(h.dir, pidFile), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		h.logger.Warn("the process number of a host cannot be kept", "host", h.name, "error", err)
	}
	return cmd.Wait()
}

// write adds a line to the log. A full disk must not end the host, so that an error loses the line.
func (h *hostProcess) write(line string) { _, _ = io.WriteString(h.log, line+"\n") }

func (h *hostProcess) lastLine() string {
	if line := h.last.Load(); line != nil {
		return *line
	}
	return "it wrote no reason"
}

// keptAddress returns the address that a port had last time, or one with a port of the kernel's choice if there was
// none or another program has taken it.
func (h *hostProcess) keptAddress(flag string) string {
	const free = "127.0.0.1:0"
	text, err := os.ReadFile(filepath.Join(h.dir, flag))
	if err != nil {
		return free
	}
	listener, err := net.Listen("tcp", string(text))
	if err != nil {
		h.logger.Warn("the port of a host is taken, so it gets another one", "host", h.name, "port", flag, "error", err)
		return free
	}
	if err := listener.Close(); err != nil {
		return free
	}
	return string(text)
}

// keepAddress records the URL or the address of a port.
func (h *hostProcess) keepAddress(flag, text string) {
	address := text
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		address = u.Host
		if !h.listening.Load() {
			h.url = text
		}
	}
	if err := durable.WriteFile(filepath.Join(h.dir, flag), []byte(address), 0o600); err != nil {
		h.logger.Warn("the port of a host cannot be kept, so it will have another one after a restart", "host", h.name, "port", flag, "error", err)
	}
}

// orphanPoll is how often awaitOrphan looks at the lock.
const orphanPoll = 50 * time.Millisecond

// awaitOrphan waits until no process of an earlier start has the directory locked. Such a process ends by itself when
// its parent has ended. awaitOrphan returns an error if it does not end within the grace.
func (h *hostProcess) awaitOrphan(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(h.dir, host.StoreFile)); err != nil {
		return nil // no host was ever started here; a lock file alone would look like the directory of a node
	}
	ctx, cancel := context.WithTimeout(ctx, h.grace)
	defer cancel()
	for said := false; ; said = true {
		lock, err := durable.Lock(h.dir)
		if err == nil {
			return lock.Close()
		}
		if !errors.Is(err, durable.ErrInUse) {
			return err
		}
		if !said {
			h.logger.Warn("the process of a host of an earlier start still runs; this start waits for its end", "host", h.name, "process", h.pid(), "longest", h.grace)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the process of %s of an earlier start still runs (process %s) and has %s locked: end it, and start again", h.name, h.pid(), h.dir)
		case <-time.After(orphanPoll):
		}
	}
}

// pid returns the number of the last process.
func (h *hostProcess) pid() string {
	text, err := os.ReadFile(filepath.Join(h.dir, pidFile))
	if err != nil {
		return "unknown"
	}
	return string(text)
}

// lineWriter calls each for every line written to it, without its end. It loses a last line without an end.
type lineWriter struct {
	each func(line string)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		w.each(string(line))
		w.rest = rest
	}
}
