package server

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy/keyring"
)

// frame returns a frame of usage in the present hour.
func (f *front) frame(ns, stream string, from, to uint64) string {
	of := []billing.Row{{Meter: billing.Reports, Quantity: 1}, {Meter: billing.InputTokens, Quantity: 10}, {Meter: billing.Cost, Quantity: 3}}
	if strings.HasPrefix(stream, "gateway/") {
		of = []billing.Row{{Meter: billing.Requests, Quantity: 1}}
	}
	var rows []string
	for i := range of {
		r := &of[i]
		r.Dimensions = billing.Dimensions{HourNs: f.now().Truncate(time.Hour).UnixNano(), Queue: "mail", Model: "m"}
		rows = append(rows, fmt.Sprintf(`{"hour_ns":%d,"queue":"mail","model":"m","meter":%d,"quantity":%d}`, r.HourNs, r.Meter, r.Quantity))
	}
	return fmt.Sprintf(`{"namespace":%q,"stream":%q,"incarnation":"ab","from":%d,"to":%d,"usage":[%s],"rows_sha256":%q}`,
		ns, stream, from, to, strings.Join(rows, ","), billing.HashRows(of))
}

// Usage counts once, in order, and only from the member that may report it.
func TestUsageIntake(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	one, oneCredential := f.host("one", keyring.Host)
	two, twoCredential := f.host("two", keyring.Host)
	gatewayID, gatewayCredential := f.host("g", keyring.Gateway)
	mine, theirs := f.namespace("acme", "mine"), f.namespace("acme", "theirs")
	host, gateway := f.join(oneCredential, "http://one.test"), f.join(gatewayCredential, "")
	f.join(twoCredential, "http://two.test")
	f.settle(mine, one)
	f.settle(theirs, two)
	send := func(key, body string, code api.Code, last uint64) {
		t.Helper()
		a := f.send("POST", wire.UsagePath, key, body)
		if code != "" {
			if a.problem(t).Code != code {
				t.Errorf("%s: %d %s, want %s", body, a.status, a.body, code)
			}
			return
		}
		var applied wire.UsageAnswer
		if err := json.Unmarshal(a.body, &applied); err != nil || a.status != 200 || applied.Last != last {
			t.Errorf("%s: %d %s, want last %d", body, a.status, a.body, last)
		}
	}
	send(host, f.frame(mine, "shard/0", 1, 3), "", 3)
	send(host, f.frame(mine, "shard/0", 1, 3), "", 3) // a repeat
	send(host, f.frame(mine, "shard/0", 5, 5), api.StateConflict, 0)
	send(host, f.frame(mine, "shard/0", 4, 4), "", 4)
	send(host, f.frame(theirs, "shard/0", 1, 1), api.Forbidden, 0)
	send(host, f.frame("ns_nobody", "shard/0", 1, 1), api.Forbidden, 0)
	send(host, f.frame(mine, "gateway/"+gatewayID, 1, 1), api.Forbidden, 0)
	send(host, f.frame(mine, "gateway/"+one, 1, 1), api.Forbidden, 0)
	send(gateway, f.frame(mine, "gateway/"+gatewayID, 1, 1), "", 1)
	send(gateway, f.frame(theirs, "gateway/"+gatewayID, 1, 1), "", 1)
	send(gateway, f.frame(mine, "shard/0", 5, 5), api.Forbidden, 0)
	send(gateway, f.frame(mine, "gateway/"+one, 1, 1), api.Forbidden, 0)
	send(host, f.frame(mine, "shard/0", 0, 0), api.ValidationError, 0)
	send(host, `{"namespace":"x"`, api.ParseError, 0)
	// A frame of an earlier build, and meters that its sender does not count or that are not known, count nothing.
	send(host, strings.Replace(f.frame(mine, "shard/0", 5, 5), `"usage":`, `"rows":`, 1), api.ValidationError, 0)
	send(host, strings.Replace(f.frame(mine, "shard/0", 5, 5), `"meter":1`, fmt.Sprintf(`"meter":%d`, billing.Requests), 1), api.ValidationError, 0)
	send(host, strings.Replace(f.frame(mine, "shard/0", 5, 5), `"meter":1`, fmt.Sprintf(`"meter":%d`, len(billing.Meters)), 1), api.ValidationError, 0)
	// So does a frame whose rows were changed on the way, or that has no hash.
	send(host, strings.Replace(f.frame(mine, "shard/0", 5, 5), `"quantity":10`, `"quantity":11`, 1), api.ValidationError, 0)
	send(host, regexp.MustCompile(`,"rows_sha256":"\w+"`).ReplaceAllString(f.frame(mine, "shard/0", 5, 5), ""), api.ValidationError, 0)
	source := "?namespace=" + mine + "&incarnation=ab&stream="
	if a := f.send("GET", wire.UsagePath+source+"shard/0", host, ""); string(a.body) != "{\"last\":4}\n" {
		t.Errorf("last: %d %s", a.status, a.body)
	}
	if a := f.send("GET", wire.UsagePath+source+"shard/0", gateway, ""); a.status != 403 {
		t.Errorf("a gateway asks for a shard: %d %s", a.status, a.body)
	}
	if a := f.send("GET", wire.UsagePath+source, host, ""); a.status != 400 {
		t.Errorf("last of no stream: %d %s", a.status, a.body)
	}
	// The sums equal the frames that were sent: 2 of the shard, 1 of the gateway.
	a := f.send("GET", "/cloud/v1/namespaces/mine/usage?group_by=queue", admin, "")
	var report api.UsageReport
	if err := json.Unmarshal(a.body, &report); err != nil || report.AsOf == nil {
		t.Errorf("usage: %d %s, %v", a.status, a.body, err)
	}
	if sum := report.Totals; sum.InputTokens.Int64() != 20 || sum.Reports.Int64() != 2 || sum.CostUSD.Nano() != 6 || sum.Requests.Int64() != 1 {
		t.Errorf("usage: %v input tokens, %v reports, %v", sum.InputTokens, sum.Reports, sum.CostUSD)
	}
	if len(report.Groups) != 1 || report.Groups[0].Key != "mail" || report.Groups[0].InputTokens.Int64() != 20 {
		t.Errorf("usage by queue: %s", a.body)
	}
	a = f.send("GET", "/cloud/v1/orgs/acme/usage?group_by=namespace", admin, "")
	if err := json.Unmarshal(a.body, &report); err != nil || report.Totals.InputTokens.Int64() != 20 || report.Totals.Requests.Int64() != 2 || len(report.Groups) != 2 {
		t.Errorf("usage of the organisation: %d %s, %v", a.status, a.body, err)
	}
	if a := f.send("GET", "/cloud/v1/orgs/acme/usage?to="+f.now().UTC().Format(time.DateOnly)+"T00:00:00Z&from=2001-01-01", admin, ""); a.status != 400 && strings.Contains(string(a.body), `"input_tokens":20`) {
		t.Errorf("usage before today: %d %s", a.status, a.body)
	}
}
