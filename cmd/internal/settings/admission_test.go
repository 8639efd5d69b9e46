package settings

import (
	"fmt"
	"strings"
	"testing"
)

func TestAdmissionFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set   func(*Admission)
		fault string // "" = none
	}{
		{func(c *Admission) { c.TrustedProxies = "10.0.0.0/8, 2001:db8::1,192.0.2.1" }, ""},
		{func(c *Admission) { c.TrustedProxies = "10.0.0.0/8,proxy.example" }, `"proxy.example" is not a network`},
		{func(c *Admission) { c.TrustedProxies = "0.0.0.0/0" }, "matches every address"},
		{func(c *Admission) { c.TrustedProxies = strings.Repeat("10.0.0.1,", 64) }, ""},
		{func(c *Admission) { c.TrustedProxies = strings.Repeat("10.0.0.1,", 65) }, "has 65 networks"},
		{func(c *Admission) {
			c.RatePerKey, c.RatePerAddress, c.RateFailures = 1_000_000, 1_000_000, 1_000_000
		}, ""},
		{func(c *Admission) { c.RatePerKey = 1_000_001 }, "--rate-limit-per-key is 1000001"},
		{func(c *Admission) { c.RatePerAddress = -1 }, "--rate-limit-per-address is -1"},
		{func(c *Admission) { c.RateFailures = -1 }, "--rate-limit-failed-auth is -1"},
		{func(c *Admission) { c.MaxConnections = MaxConnections }, ""},
		{func(c *Admission) { c.MaxConnections = MaxConnections + 1 }, "--max-connections is 1000001"},
	} {
		var admission Admission
		c.set(&admission)
		var faults []string
		admission.Check(func(good bool, message string, args ...any) {
			if !good {
				faults = append(faults, fmt.Sprintf(message, args...))
			}
		})
		if (c.fault == "") != (len(faults) == 0) || c.fault != "" && !strings.Contains(faults[0], c.fault) {
			t.Errorf("%v, want %q", faults, c.fault)
		}
	}
	all := (&Admission{TrustedProxies: "10.1.2.3/8,2001:db8::1"}).Limits().Proxies
	if len(all) != 2 || all[0].String() != "10.0.0.0/8" || all[1].String() != "2001:db8::1/128" {
		t.Errorf("%v", all)
	}
}
