package provider

import (
	"strings"
	"testing"
	"time"
)

// TestBounds checks values at a bound and one step beyond it.
func TestBounds(t *testing.T) {
	t.Parallel()
	jitter := isDurationWithin(0, maxScheduleJitter)
	expire := isDurationWithin(minExpireAfter, maxExpireAfter)
	for _, c := range []struct {
		is   checked
		text string
		want string // part of the error; "" = none
	}{
		{jitter, "0s", ""},
		{jitter, "1h", ""},
		{jitter, "1h0m0.001s", "not between 0s and 1h0m0s"},
		{jitter, "1.5ms", "whole number of milliseconds"},
		{jitter, "", "empty"},
		{jitter, "-1s", "negative"},
		{expire, "1ms", ""},
		{expire, "0s", "not between 1ms"},
		{expire, "8760h", ""},
		{expire, "8760h1ms", "not between"},
		{isRetention, "forever", ""},
		{isRetention, "Forever", "not a duration"},
		{isRetention, maxRetention.String(), ""},
		{isRetention, (maxRetention + time.Millisecond).String(), "not between"},
		{isRetention, "0s", "not between"},
		{isDurationWithin(time.Millisecond, maxAgeing), "168h", ""},
		{isDurationWithin(time.Millisecond, maxAgeing), "168h0m0.001s", "not between"},
		{isDurationWithin(time.Millisecond, maxAgeing), "0s", "not between"},
		{isUSDWithin("0", maxUSD), "0", ""},
		{isUSDWithin("0", maxUSD), "0.000000001", ""},
		{isUSDWithin("0", maxUSD), "1000000000.0", ""},
		{isUSDWithin("0", maxUSD), "1000000000.000000001", "not between"},
		{isUSDWithin("0", maxUSD), "-0.000000001", "not between"},
		{isUSDWithin("0", maxUSD), "0.0000000001", "decimals"},
		{isUSDWithin("0", maxUSD), "1,5", "not a decimal number"},
		{isUSDWithin(leastUSD, maxUSD), "0.00", "not between"},
		{isUSDWithin(leastUSD, maxUSD), "1e-9", ""},
		{isCron, "0 9 * * mon", ""},
		{isCron, "0 0 9 * * mon", ""},
		{isCron, " @daily", ""},
		{isCron, "0 9 * *", "4 fields"},
		{isCron, "0 0 0 9 * * mon", "7 fields"},
		{isCron, "@" + strings.Repeat("x", maxCronText-1), ""},
		{isCron, "@" + strings.Repeat("x", maxCronText), "257 bytes"},
		{isPayload, `"text"`, ""},
		{isPayload, "null", "leave it out"},
		{isPayload, "{} 1", "follows"},
		{isPayload, "", "EOF"},
	} {
		err := c.is.check(c.text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.40q as %s: %v, want %q", c.text, c.is.want, err, c.want)
		}
	}
}
