package replica

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// NewLogger returns a logger for hashicorp's libraries that writes to l. It lowers infos and warnings by one
// level, because elections and compactions are routine for a group and the reader of l wants to see faults.
func NewLogger(l *slog.Logger) hclog.Logger {
	base := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
	base.RegisterSink(logSink{l})
	return base
}

type logSink struct{ to *slog.Logger }

var levels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug,
	hclog.Debug: slog.LevelDebug,
	hclog.Info:  slog.LevelDebug,
	hclog.Warn:  slog.LevelInfo,
	hclog.Error: slog.LevelError,
}

// unreachable lists the messages that raft logs as errors, many times a second, while a member does not
// answer. The engine's probe logs the member's absence once.
var unreachable = []string{
	"failed to heartbeat to", "failed to appendEntries to", "failed to pipeline appendEntries",
	"failed to start pipeline replication to", "failed to make requestVote RPC",
}

func (s logSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	to, ctx := levels[level], context.Background()
	if level == hclog.Error && slices.ContainsFunc(unreachable, func(of string) bool { return strings.HasPrefix(msg, of) }) {
		to = slog.LevelDebug
	}
	if !s.to.Enabled(ctx, to) {
		return
	}
	if name != "" {
		msg = name + ": " + msg
	}
	s.to.Log(ctx, to, msg, args...)
}
