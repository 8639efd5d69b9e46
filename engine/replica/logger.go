package replica

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// NewLogger gives hashicorp's libraries a logger that writes to l. Warnings and
// below go one level down: elections and compactions are the daily life of a
// group, and whoever reads l wants to hear of faults.
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

// unreachable are what raft says, as errors and many times a second, while a
// member does not answer. The leader says once that it does not, in its own words.
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
