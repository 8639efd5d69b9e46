package front

import (
	"fmt"
	"log/slog"
)

// ownFiles is the number of files that a process needs open besides connections of
// clients: those of logs, stores and views, and connections to other processes.
const ownFiles = 1024

// filesFor returns the number of files that a front needs open at its connection limit. A gateway needs two
// for each client, because it opens a connection to a host for each.
func filesFor(c Config) int64 {
	return ownFiles + int64(c.MaxConnections)*int64(max(c.FilesPerConnection, 1))
}

// warnOfFiles warns if the system allows fewer open files than the process may need. It does not refuse to
// start, because few processes ever reach their connection limit; a connection too many then waits until a
// file is closed.
func warnOfFiles(log *slog.Logger, c Config, limit int64) {
	if needed := filesFor(c); limit < needed {
		log.Warn("the limit on open files is low: raise it (ulimit -n, LimitNOFILE=) or lower --max-connections",
			"limit", limit, "needed", needed, "own_files", ownFiles, "max_connections", c.MaxConnections)
	}
}

// RequireFiles returns an error if the system allows a process fewer open files than it needs besides those for
// connections of clients. process names it for people.
func RequireFiles(process string) error {
	if limit, ok := openFiles(); ok {
		return requireFiles(process, limit)
	}
	return nil
}

func requireFiles(process string, limit int64) error {
	if limit >= ownFiles {
		return nil
	}
	return fmt.Errorf("the limit on open files is %d, and %s needs %d: raise it, such as with ulimit -n %d", limit, process, ownFiles, ownFiles)
}
