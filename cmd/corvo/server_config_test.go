package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/corvo/corvo/cmd/internal/proctest"
	"github.com/corvo/corvo/cmd/internal/settings"
	files "github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
)

// load fills a serverConfig from arguments, environment and file text.
func load(t *testing.T, args []string, env map[string]string, file string) (serverConfig, error) {
	t.Helper()
	var cfg serverConfig
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	settings.Bind(flags, &cfg)
	if file != "" {
		path := filepath.Join(t.TempDir(), "corvo.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if err := settings.Fill(flags, lookup, cfg.Config); err != nil {
		return cfg, err
	}
	return cfg, cfg.check(flags.Changed)
}

func TestAFlagWinsOverTheEnvironmentAndThatOverTheFile(t *testing.T) {
	t.Parallel()
	cfg, err := load(t,
		[]string{"--node-id", "from-flag"},
		map[string]string{"CORVO_NODE_ID": "from-env", "CORVO_DATA_DIR": "from-env"},
		"node-id: from-file\ndata-dir: from-file\npropose-timeout: 3s\nmax-payload-size: 2048\n")
	if err != nil {
		t.Fatal(err)
	}
	got := serverConfig{NodeID: cfg.NodeID, DataDir: cfg.DataDir, ProposeTimeout: cfg.ProposeTimeout, MaxPayloadSize: cfg.MaxPayloadSize, ShutdownTimeout: cfg.ShutdownTimeout}
	want := serverConfig{NodeID: "from-flag", DataDir: "from-env", ProposeTimeout: 3 * time.Second, MaxPayloadSize: 2048, ShutdownTimeout: 30 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTheDefaultsAreTheEngines checks that the flags' defaults equal the engine's.
func TestTheDefaultsAreTheEngines(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Heartbeat != replica.DefaultHeartbeat || cfg.ElectionTimeout != replica.DefaultElection {
		t.Errorf("--heartbeat %v, --election-timeout %v", cfg.Heartbeat, cfg.ElectionTimeout)
	}
}

func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		file string
		want []string // all of these are in the error
	}{
		"dev on every address":  {args: []string{"--dev", "--bind", ":8080"}, want: []string{"--dev", "loopback"}},
		"dev on a real address": {args: []string{"--dev", "--bind", "192.0.2.1:8080"}, want: []string{"loopback"}},
		"no address":            {args: []string{"--bind", "frob"}, want: []string{"--bind is \"frob\"", "host:port"}},
		"no raft address":       {args: []string{"--raft-bind", "here"}, want: []string{"--raft-bind is \"here\"", "host:port"}},
		"durability":            {args: []string{"--durability", "some"}, want: []string{"durable or relaxed"}},
		"durable and relaxed":   {args: []string{"--durable", "--durability", "relaxed"}, want: []string{"contradict"}},
		"not durable":           {args: []string{"--durable=false"}, want: []string{"--durability relaxed"}},
		"no backlog":            {args: []string{"--max-pending", "63"}, want: []string{"--max-pending is 63"}},
		"endless backlog":       {args: []string{"--max-pending", "1000001"}, want: []string{"1000000"}},
		"small backlog":         {args: []string{"--max-pending-bytes", "41943039"}, want: []string{"41943040"}},
		"empty entries":         {args: []string{"--max-entry-ops", "0"}, want: []string{"--max-entry-ops is 0"}},
		"huge entries":          {args: []string{"--max-entry-bytes", "4194305"}, want: []string{"4194304"}},
		"log store":             {args: []string{"--raft-store", "paper"}, want: []string{"badger", "bolt", "pebble", "wal"}},
		"two ways in":           {args: []string{"--join", "a:1", "--peers", "b:1"}, want: []string{"--join, --discover and --peers"}},
		"joining without raft":  {args: []string{"--join", "a:1", "--raft-bind", "off"}, want: []string{"--raft-bind"}},
		"joining in dev":        {args: []string{"--join", "a:1", "--dev"}, want: []string{"--raft-bind"}},
		"waiting without raft":  {args: []string{"--bootstrap=false", "--raft-bind", "off"}, want: []string{"--bootstrap=false"}},
		"discovery":             {args: []string{"--discover", "gossip"}, want: []string{"must be dns"}},
		"nobody expected":       {args: []string{"--expect", "0"}, want: []string{"--expect"}},
		"too many expected":     {args: []string{"--expect", "100"}, want: []string{"--expect"}},
		"too many shards":       {args: []string{"--shards", "65"}, want: []string{"--shards"}},
		"hasty elections":       {args: []string{"--election-timeout", "499ms"}, want: []string{"--heartbeat"}},
		"hasty heartbeats":      {args: []string{"--heartbeat", "19ms"}, want: []string{"--heartbeat"}},
		"snapshots by time":     {args: []string{"--snapshot-interval", "2m"}, want: []string{"UNSUPPORTED"}},
		"a password":            {args: []string{"--admin-password-file", "x"}, want: []string{"UNSUPPORTED", "admin.key"}},
		"payload too small":     {args: []string{"--max-payload-size", "0"}, want: []string{"--max-payload-size"}},
		"payload too large":     {args: []string{"--max-payload-size", "16777217"}, want: []string{"16777216"}},
		"negative retention":    {args: []string{"--retention", "-1h"}, want: []string{"--retention"}},
		"endless retention":     {args: []string{"--retention", "87600h1ms"}, want: []string{"87600h"}},
		"tiny snapshots":        {args: []string{"--snapshot-threshold", "1048575"}, want: []string{"--snapshot-threshold"}},
		"no time to propose":    {args: []string{"--propose-timeout", "0s"}, want: []string{"--propose-timeout"}},
		"log level":             {args: []string{"--log-level", "loud"}, want: []string{"debug, info, warn, error"}},
		"unknown file key":      {file: "data-dri: x\n", want: []string{`unknown setting "data-dri"`}},
		"file key in itself":    {file: "config: x\n", want: []string{`unknown setting "config"`}},
		"file is no map":        {file: "- x\n", want: []string{"--config"}},
		"bad environment":       {env: map[string]string{"CORVO_PROPOSE_TIMEOUT": "soon"}, want: []string{`CORVO_PROPOSE_TIMEOUT is "soon"; it must be a duration`}},
		"several at once":       {args: []string{"--log-level", "loud", "--data-dir", ""}, want: []string{"--log-level", "--data-dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, c.args, c.env, c.file)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// TestASettingThatIsWrongIsMisuseWhereverItIsSaid checks that an invalid setting ends the server as misuse
// from every source, and that the error names the source.
func TestASettingThatIsWrongIsMisuseWhereverItIsSaid(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "corvo.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		env  []string
		args []string
		says string
	}{
		{nil, []string{"--config", "/nope"}, "--config: open /nope"},
		{[]string{"CORVO_CONFIG=/nope"}, nil, "CORVO_CONFIG: open /nope"},
		{nil, []string{"--config", file("shard: 2\n")}, `unknown setting "shard"`},
		{nil, []string{"--config", file("shards: abc\n")}, `corvo.yaml: shards is "abc"; it must be a whole number`},
		{[]string{"CORVO_SHARDS=abc"}, nil, `CORVO_SHARDS is "abc"; it must be a whole number`},
		{[]string{"CORVO_DEV=maybe"}, nil, `CORVO_DEV is "maybe"; it must be true or false`},
		{nil, []string{"--shards", "abc"}, `--shards is "abc"; it must be a whole number`},
		{nil, []string{"--shards", "9223372036854775808"}, "a whole number of at most 64 bits"},
		{nil, []string{"--max-payload-size", "5x"}, `--max-payload-size is "5x"; it must be a whole number`},
		{nil, []string{"--propose-timeout", "5"}, `--propose-timeout is "5"; it must be a duration like "5s" or "10m"`},
		{nil, []string{"--admin-password-file", "x"}, "UNSUPPORTED: --admin-password-file"},
		{nil, []string{"--otel-endpoint", "collector:4318"}, "--otel-endpoint: traces: the endpoint \"collector:4318\" is not a base URL: give one such as http://127.0.0.1:4318"},
		{nil, []string{"--otel-endpoint", "http://[::1"}, "missing ']' in host: give one such as http://127.0.0.1:4318"},
		{[]string{"CORVO_OTEL_ENDPOINT=frob"}, nil, "--otel-endpoint"},
		{nil, []string{"--join-token-file", "/nope"}, "--join-token-file: open /nope: no such file or directory; it names a file with the text of a member's join-token"},
		{nil, []string{"--join-token-file", t.TempDir()}, "--join-token-file: read"},
		{nil, []string{"--join-token-file", file("")}, "is empty; it names a file"},
		{nil, []string{"--join-token-file", file("short")}, "the join token has 5 bytes"},
		{nil, []string{"--bind", "127.0.0.1:70000"}, `--bind is "127.0.0.1:70000"; it must be host:port or :port`},
		{nil, []string{"--raft-bind", ":-1"}, `--raft-bind is ":-1"; it must be host:port, :port or off`},
		{nil, []string{"--raft-advertise", "node-1:70000"}, `--raft-advertise is "node-1:70000"`},
		{nil, []string{"--join", "node-1:9400,node-2"}, `--join has "node-2"; it must be host:port`},
		{nil, []string{"--peers", ":9400"}, `--peers has ":9400"; it must be host:port`},
		{nil, []string{"--advertise", "node-1:8080"}, `--advertise is "node-1:8080"; it must be a URL such as http`},
		{nil, []string{"--shards", "0"}, "--shards is 0; it must be between 1 and 64"},
		{[]string{"CORVO_SHARDS=0"}, nil, "--shards is 0; it must be between 1 and 64"},
	} {
		a := corvo(t, c.env, append([]string{"server", "--data-dir", t.TempDir(), "--bind", "127.0.0.1:0", "--raft-bind", "127.0.0.1:0"}, c.args...)...)
		if a.code != 2 || !strings.Contains(a.stderr, c.says) {
			t.Errorf("%v %v: exit %d: %s; it should be 2 and say %q", c.env, c.args, a.code, a.stderr, c.says)
		}
		for _, word := range []string{"strconv", "shutting down"} {
			if strings.Contains(a.stderr, word) {
				t.Errorf("%v %v: stderr says %q: %s", c.env, c.args, word, a.stderr)
			}
		}
	}
}

// TestAServerThatCannotStartServesNothing checks that the server finds missing resources before it serves,
// and names the flag.
func TestAServerThatCannotStartServesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := files.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct{ dir, bind, raft, says string }{
		{dir, "127.0.0.1:0", "127.0.0.1:0", "--data-dir " + dir + ": in use: stop the other process first"},
		{dir, "127.0.0.1:0", "off", "--data-dir " + dir + ": in use: stop the other process first"},
		{t.TempDir(), taken.Addr().String(), "off", "--bind: listen tcp"},
		{t.TempDir(), "127.0.0.1:0", taken.Addr().String(), "--raft-bind: listen tcp"},
	} {
		a := corvo(t, nil, "server", "--data-dir", c.dir, "--bind", c.bind, "--raft-bind", c.raft)
		if a.code != 1 || !strings.Contains(a.stderr, c.says) || strings.Contains(a.stderr, "shutting down") {
			t.Errorf("exit %d: %s; it should be 1 and say %q", a.code, a.stderr, c.says)
		}
	}
}

func TestLimitsAreAcceptedAtTheirBound(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--max-payload-size", "1"},
		{"--max-payload-size", "16777216"},
		{"--snapshot-threshold", "1048576"},
		{"--retention", "1ms"},
		{"--retention", "87600h"},
		{"--expect", "1"},
		{"--expect", "99"},
		{"--shards", "1"},
		{"--shards", "64"},
		{"--bind", "127.0.0.1:65535", "--raft-bind", ":0", "--advertise", "http://node-1:8080/"},
		{"--raft-advertise", "node-1", "--join", "node-1:9400, [::1]:9400,"},
		{"--raft-advertise", "[::1]:9400"},
		{"--raft-advertise", "::1"},
		{"--heartbeat", "20ms", "--election-timeout", "20ms"},
	} {
		if _, err := load(t, args, nil, ""); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestDevBindsToLoopbackByDefault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ":8080"},
		{[]string{"--dev"}, "127.0.0.1:8080"},
		{[]string{"--dev", "--bind", "[::1]:9"}, "[::1]:9"},
		{[]string{"--dev", "--bind", "localhost:9"}, "localhost:9"},
	} {
		cfg, err := load(t, c.args, nil, "")
		if err != nil || cfg.bind() != c.want {
			t.Errorf("%v binds %q (%v), want %q", c.args, cfg.bind(), err, c.want)
		}
	}
}

// TestPipelineBounds checks that the pipeline's bounds follow the flags, and the defaults without flags.
func TestPipelineBounds(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, []string{"--durable"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.tuning().Limits, (pipeline.Limits{InFlight: pipeline.MaxInFlight}).WithDefaults(); got.WithDefaults() != want || cfg.tuning().NoSync {
		t.Errorf("%+v, want %+v", got, want)
	}
	cfg, err = load(t, []string{"--max-pending", "64", "--max-pending-bytes", "41943040", "--max-entry-ops", "1", "--max-entry-bytes", "4194304"}, nil, "")
	if want := (pipeline.Limits{BacklogOps: 64, BacklogBytes: 40 << 20, EntryOps: 1, EntryBytes: 4 << 20}); err != nil || cfg.tuning().Limits != want {
		t.Errorf("%+v, %v", cfg.tuning().Limits, err)
	}
}

// TestUnknownVariablesAreToldOf checks that an unknown variable that resembles a known one causes a warning
// with the known one, and no failure.
func TestUnknownVariablesAreToldOf(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(proctest.Build(t, "../..", "./cmd/corvo"), "version")
	cmd.Env = append(os.Environ(), "CORVO_ENDPIONT=http://127.0.0.1:1", "CORVO_FROBNICATE=1")
	var said strings.Builder
	cmd.Stderr = &said
	if out, err := cmd.Output(); err != nil || len(out) == 0 {
		t.Fatalf("%s, %v", out, err)
	}
	if want := `corvo: warning: environment variable "CORVO_ENDPIONT" is unknown and does nothing; did you mean CORVO_ENDPOINT?`; !strings.Contains(said.String(), want) || strings.Contains(said.String(), "FROBNICATE") {
		t.Errorf("it says %q", said.String())
	}
}
