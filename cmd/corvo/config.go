package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

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
	LogLevel          string        `flag:"log-level" default:"info" doc:"debug, info, warn or error"`
	ShutdownTimeout   time.Duration `flag:"shutdown-timeout" default:"30s" doc:"how long requests under way may take to finish at shutdown"`
}

const (
	defaultBind    = ":8080"
	defaultDevBind = "127.0.0.1:8080"

	minSnapshotThreshold = 1 << 20
)

var levels = []string{"debug", "info", "warn", "error"}

// check refuses settings that cannot be, all at once.
func (c *serverConfig) check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Dev && !loopback(c.bind()) {
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
	if !slices.Contains(levels, c.LogLevel) {
		refuse("--log-level is %q; it must be one of %s", c.LogLevel, strings.Join(levels, ", "))
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

func (c *serverConfig) level() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return slog.LevelInfo // check has refused it already
	}
	return level
}

// bindFlags gives every field of cfg its flag, with its default.
func bindFlags(flags *pflag.FlagSet, cfg *serverConfig) {
	v := reflect.ValueOf(cfg).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, doc, initial := field.Tag.Get("flag"), field.Tag.Get("doc"), field.Tag.Get("default")
		switch target := v.Field(i).Addr().Interface().(type) {
		case *string:
			flags.StringVar(target, name, "", doc)
		case *bool:
			flags.BoolVar(target, name, false, doc)
		case *int64:
			flags.Int64Var(target, name, 0, doc)
		case *time.Duration:
			flags.DurationVar(target, name, 0, doc)
		default:
			panic(fmt.Sprintf("setting %s has type %T, for which there is no flag", name, target))
		}
		if initial == "" {
			continue
		}
		flag := flags.Lookup(name)
		if err := flag.Value.Set(initial); err != nil {
			panic(fmt.Sprintf("default of --%s: %v", name, err))
		}
		flag.DefValue = initial
	}
}

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "CORVO_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fillFlags sets the flags that were not given on the command line, from the
// environment or else from the configuration file. A key the file has and we do
// not is refused: it is a setting somebody believes in.
func fillFlags(flags *pflag.FlagSet, env func(string) (string, bool), file string) error {
	if path, ok := env(envName("config")); ok && file == "" {
		file = path
	}
	settings, err := readSettings(file)
	if err != nil {
		return err
	}
	var errs []error
	for name := range settings {
		if flags.Lookup(name) == nil || name == "config" || name == "help" {
			errs = append(errs, fmt.Errorf("%s: unknown setting %q", file, name))
		}
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || flag.Name == "help" {
			return
		}
		value, ok := env(envName(flag.Name))
		if !ok {
			value, ok = settings[flag.Name]
		}
		if !ok {
			return
		}
		if err := flags.Set(flag.Name, value); err != nil {
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

func readSettings(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	settings := map[string]string{}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return nil, fmt.Errorf("--config %s: %w", file, err)
	}
	return settings, nil
}
