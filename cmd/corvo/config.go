package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/dataplane/job"
)

// serverConfig is everything `corvo server` can be told. Flags, environment
// variables and the keys of the configuration file are derived from it.
type serverConfig struct {
	Config            string        `flag:"config" doc:"file with settings, one 'flag-name: value' a line (YAML)"`
	Bind              string        `flag:"bind" doc:"address to serve HTTP on (default \":8080\", with --dev \"127.0.0.1:8080\")"`
	DataDir           string        `flag:"data-dir" default:"data" doc:"directory for all data"`
	NodeID            string        `flag:"node-id" default:"node-1" doc:"this node's name in its cluster; must not change"`
	Dev               bool          `flag:"dev" doc:"open to everybody on this machine, without keys; needs a loopback --bind"`
	Durability        string        `flag:"durability" default:"durable" doc:"durable: a write is on disk before it is acknowledged"`
	RaftStore         string        `flag:"raft-store" default:"wal" doc:"log store: wal"`
	MaxPayloadSize    int64         `flag:"max-payload-size" default:"1048576" doc:"most bytes of a job's payload"`
	SnapshotThreshold int64         `flag:"snapshot-threshold" default:"67108864" doc:"bytes of log after which a snapshot is taken and the log cut"`
	ProposeTimeout    time.Duration `flag:"propose-timeout" default:"10s" doc:"longest wait for a write to be committed"`
	OTelEndpoint      string        `flag:"otel-endpoint" doc:"OTLP/HTTP receiver for traces, such as http://127.0.0.1:4318; none by default"`
	LogLevel          string        `flag:"log-level" default:"info" doc:"debug, info, warn or error"`
	ShutdownTimeout   time.Duration `flag:"shutdown-timeout" default:"30s" doc:"how long requests under way may take to finish at shutdown"`
}

const (
	defaultBind    = ":8080"
	defaultDevBind = "127.0.0.1:8080"

	minSnapshotThreshold = 1 << 20
)

// check refuses settings that cannot be, all at once.
func (c *serverConfig) check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Dev && !front.Loopback(c.bind()) {
		refuse("--dev is open without keys and so needs a loopback --bind such as %s, not %q", defaultDevBind, c.Bind)
	}
	if c.Durability != "durable" {
		refuse("--durability is %q; this version knows durable only", c.Durability)
	}
	if c.RaftStore != "wal" {
		refuse("--raft-store is %q; this version knows wal only", c.RaftStore)
	}
	if c.MaxPayloadSize < 1 || c.MaxPayloadSize > job.MaxPayloadFlag {
		refuse("--max-payload-size is %d; it must be between 1 and %d", c.MaxPayloadSize, job.MaxPayloadFlag)
	}
	if c.SnapshotThreshold < minSnapshotThreshold {
		refuse("--snapshot-threshold is %d; it must be at least %d", c.SnapshotThreshold, minSnapshotThreshold)
	}
	if c.ProposeTimeout <= 0 {
		refuse("--propose-timeout is %v; it must be positive", c.ProposeTimeout)
	}
	if c.ShutdownTimeout <= 0 {
		refuse("--shutdown-timeout is %v; it must be positive", c.ShutdownTimeout)
	}
	if c.DataDir == "" {
		refuse("--data-dir is empty")
	}
	if c.NodeID == "" {
		refuse("--node-id is empty")
	}
	if _, err := settings.Logger(c.LogLevel); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *serverConfig) bind() string {
	switch {
	case c.Bind != "":
		return c.Bind
	case c.Dev:
		return defaultDevBind
	}
	return defaultBind
}
