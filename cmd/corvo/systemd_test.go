package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/corvo/corvo/cmd/internal/proctest"
	"github.com/corvo/corvo/cmd/internal/settings"
)

const (
	unitPath     = "../../deploy/corvo.service"
	settingsPath = "../../deploy/corvo.yaml"
)

// readUnit reads the settings of the systemd unit, each of which must occur once.
func readUnit(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(unitPath)
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		if _, again := unit[name]; again {
			t.Errorf("the unit has %s twice", name)
		}
		unit[name] = value
	}
	return unit
}

// filled returns the node's settings from the unit's command line and a settings file.
func filled(t *testing.T, unit map[string]string, file string) (serverConfig, error) {
	t.Helper()
	var cfg serverConfig
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	settings.Bind(flags, &cfg)
	command := strings.Fields(unit["ExecStart"])
	if len(command) < 2 || command[0] != "/usr/local/bin/corvo" || command[1] != "server" {
		t.Fatalf("the unit starts %q", command)
	}
	if err := flags.Parse(command[2:]); err != nil {
		t.Fatal(err)
	}
	if cfg.Config != "/etc/corvo/corvo.yaml" {
		t.Errorf("the unit has the settings of %q", cfg.Config)
	}
	if err := settings.Fill(flags, func(string) (string, bool) { return "", false }, file); err != nil {
		return cfg, err
	}
	return cfg, cfg.check(flags.Changed)
}

func TestTheUnitStartsANode(t *testing.T) {
	t.Parallel()
	unit := readUnit(t)
	cfg, err := filled(t, unit, settingsPath)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.DataDir != "/var/lib/"+unit["StateDirectory"] || unit["ProtectSystem"] != "strict" {
		t.Errorf("it writes to %s; its unit lets it write to /var/lib/%s", cfg.DataDir, unit["StateDirectory"])
	}
	if seconds, err := strconv.Atoi(unit["TimeoutStopSec"]); err != nil || time.Duration(seconds)*time.Second < stopTime() {
		t.Errorf("it is killed after %q; it may take %v to stop", unit["TimeoutStopSec"], stopTime())
	}
	// A node that joins others needs netlink to find its own address.
	if families := strings.Fields(unit["RestrictAddressFamilies"]); !slices.Contains(families, "AF_NETLINK") {
		t.Errorf("its sockets: %q", families)
	}
}

// TestTheSettingsFileForACluster checks that the commented-out settings in the file work when uncommented.
func TestTheSettingsFileForACluster(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(settingsPath)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^raft-bind: .*\n`).ReplaceAll(text, nil) // a commented-out line replaces it
	text = regexp.MustCompile(`(?m)^#([a-z-]+: )`).ReplaceAll(text, []byte("$1"))
	path := filepath.Join(t.TempDir(), "corvo.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := filled(t, readUnit(t), path)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Join == "" || cfg.NodeID != "node-0" {
		t.Errorf("node %q joins %q", cfg.NodeID, cfg.Join)
	}
	if got := cfg.raftBind(); got != defaultRaftBind {
		t.Errorf("raft is bound to %q, want %q", got, defaultRaftBind)
	}
}

func TestSystemdTakesTheUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd on this machine")
	}
	text, err := os.ReadFile(unitPath)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "corvo.service")
	binary := proctest.Build(t, "../..", "./cmd/corvo")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/corvo", binary)), 0o600); err != nil {
		t.Fatal(err)
	}
	// systemd-analyze exits with success even after warnings about unknown settings.
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
