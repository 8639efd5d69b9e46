package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What is given on a command line is in the list of processes, which all users of a
// machine read, and in the shell's history: secrets come from files and the environment.
// --api-key is documented so, and stands beside a flag that takes a file.
func TestNoFlagTakesASecret(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`(?i)secret|passw|token|api-?key|credential|private-key`)
	var walk func(cmd *cobra.Command)
	seen := 0
	check := func(cmd *cobra.Command) func(*pflag.Flag) {
		return func(f *pflag.Flag) {
			seen++
			switch {
			case !secret.MatchString(f.Name) || strings.HasSuffix(f.Name, "-file") || f.Value.Type() == "duration" || f.Value.Type() == "file":
			case f.Name == "api-key" && cmd.Flag("api-key-file") != nil:
			case f.Value.Type() == "n": // counts of tokens
			default:
				t.Errorf("%s --%s (%s): is that a secret? Read it from a file", cmd.CommandPath(), f.Name, f.Value.Type())
			}
		}
	}
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(check(cmd))
		cmd.PersistentFlags().VisitAll(check(cmd))
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRoot())
	if seen < 100 {
		t.Errorf("saw %d flags", seen)
	}
}

func TestDoorFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set   func(*serverConfig)
		fault string // "" = none
	}{
		{func(c *serverConfig) { c.TrustedProxies = "10.0.0.0/8, 2001:db8::1,192.0.2.1" }, ""},
		{func(c *serverConfig) { c.TrustedProxies = "10.0.0.0/8,proxy.example" }, `"proxy.example" is no network`},
		{func(c *serverConfig) { c.TrustedProxies = "0.0.0.0/0" }, "is everybody"},
		{func(c *serverConfig) { c.TrustedProxies = strings.Repeat("10.0.0.1,", 64) }, ""},
		{func(c *serverConfig) { c.TrustedProxies = strings.Repeat("10.0.0.1,", 65) }, "has 65 networks"},
		{func(c *serverConfig) {
			c.RatePerKey, c.RatePerAddress, c.RateFailures = 1_000_000, 1_000_000, 1_000_000
		}, ""},
		{func(c *serverConfig) { c.RatePerKey = 1_000_001 }, "--rate-limit-per-key is 1000001"},
		{func(c *serverConfig) { c.RatePerAddress = -1 }, "--rate-limit-per-address is -1"},
		{func(c *serverConfig) { c.RateFailures = -1 }, "--rate-limit-failed-auth is -1"},
		{func(c *serverConfig) { c.MaxConnections = maxConnections }, ""},
		{func(c *serverConfig) { c.MaxConnections = maxConnections + 1 }, "--max-connections is 1000001"},
	} {
		var cfg serverConfig
		c.set(&cfg)
		var f faults
		cfg.checkDoor(&f)
		if (c.fault == "") != (len(f) == 0) || c.fault != "" && !strings.Contains(f[0].Error(), c.fault) {
			t.Errorf("%v, want %q", f, c.fault)
		}
	}
	all, err := (&serverConfig{TrustedProxies: "10.1.2.3/8,2001:db8::1"}).proxies()
	if err != nil || len(all) != 2 || all[0].String() != "10.0.0.0/8" || all[1].String() != "2001:db8::1/128" {
		t.Errorf("%v, %v", all, err)
	}
}
