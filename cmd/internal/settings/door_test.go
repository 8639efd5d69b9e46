package settings

import (
	"fmt"
	"strings"
	"testing"
)

func TestDoorFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set   func(*Door)
		fault string // "" = none
	}{
		{func(c *Door) { c.TrustedProxies = "10.0.0.0/8, 2001:db8::1,192.0.2.1" }, ""},
		{func(c *Door) { c.TrustedProxies = "10.0.0.0/8,proxy.example" }, `"proxy.example" is no network`},
		{func(c *Door) { c.TrustedProxies = "0.0.0.0/0" }, "is everybody"},
		{func(c *Door) { c.TrustedProxies = strings.Repeat("10.0.0.1,", 64) }, ""},
		{func(c *Door) { c.TrustedProxies = strings.Repeat("10.0.0.1,", 65) }, "has 65 networks"},
		{func(c *Door) {
			c.RatePerKey, c.RatePerAddress, c.RateFailures = 1_000_000, 1_000_000, 1_000_000
		}, ""},
		{func(c *Door) { c.RatePerKey = 1_000_001 }, "--rate-limit-per-key is 1000001"},
		{func(c *Door) { c.RatePerAddress = -1 }, "--rate-limit-per-address is -1"},
		{func(c *Door) { c.RateFailures = -1 }, "--rate-limit-failed-auth is -1"},
		{func(c *Door) { c.MaxConnections = MaxConnections }, ""},
		{func(c *Door) { c.MaxConnections = MaxConnections + 1 }, "--max-connections is 1000001"},
	} {
		var door Door
		c.set(&door)
		var faults []string
		door.Check(func(good bool, message string, args ...any) {
			if !good {
				faults = append(faults, fmt.Sprintf(message, args...))
			}
		})
		if (c.fault == "") != (len(faults) == 0) || c.fault != "" && !strings.Contains(faults[0], c.fault) {
			t.Errorf("%v, want %q", faults, c.fault)
		}
	}
	all := (&Door{TrustedProxies: "10.1.2.3/8,2001:db8::1"}).Limits().Proxies
	if len(all) != 2 || all[0].String() != "10.0.0.0/8" || all[1].String() != "2001:db8::1/128" {
		t.Errorf("%v", all)
	}
}
