package store

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
)

// claimWorld has the founded namespace x with a member on host a, host b without one, and the gateway g, which has joined.
func claimWorld(t *testing.T) *world {
	w := newFleet(t, "a", "b")
	w.ok(newReplicated(1), place("x", "a"), found("x"), newGateway("g"), newGateway("never"))
	gateway := join("g", "")
	gateway.Raft = ""
	w.ok(gateway)
	return w
}

// claimOf returns the claim of the shard of namespace x.
func claimOf(host string, last uint64, untilNs int64) *UsageClaim {
	return &UsageClaim{Host: "host_" + host, Namespace: "ns_x", Stream: "shard/0", Incarnation: hex.EncodeToString(minted("x")[0]), Last: last, UntilNs: untilNs}
}

func gatewayClaim(id string, untilNs int64) *UsageClaim {
	return &UsageClaim{Host: "host_" + id, Stream: "gateway/host_" + id, UntilNs: untilNs}
}

// claim records claims, and returns how many were recorded.
func (w *world) claim(claims ...*UsageClaim) uint32 {
	w.t.Helper()
	return do[*RecordClaimsResult](w, &RecordClaims{Meta: by("reconciler"), Claims: claims}).Recorded
}

// complete returns until when the usage of the organisation is complete, as a time since the epoch of the test.
func (w *world) complete() (until time.Duration, late []UsageSource) {
	w.t.Helper()
	c, err := w.store().Completeness(w.t.Context(), always("org_acme"), time.Unix(0, w.clockNs))
	if err != nil {
		w.t.Fatal(err)
	}
	return time.Duration(c.UntilNs - epochNs), c.Late
}

// An organisation's usage is complete until the least claim of its shards and of the gateways. A claim never goes
// backwards, and counts only if it comes from a source that is expected and the ledger has the rows that it is about.
func TestClaims(t *testing.T) {
	t.Parallel()
	w := claimWorld(t)
	w.pass(10 * time.Hour)
	at := func(d time.Duration) int64 { return epochNs + int64(d) }
	if until, late := w.complete(); until > time.Minute || len(late) != 2 {
		t.Errorf("without a claim it is complete until %s, late are %+v", until, late)
	}
	if n := w.claim(claimOf("a", 0, at(5*time.Hour)), gatewayClaim("g", at(9*time.Hour))); n != 2 {
		t.Errorf("%d claims were recorded", n)
	}
	late := []UsageSource{{"ns_x", "shard/0", at(5 * time.Hour)}, {"", "gateway/host_g", at(9 * time.Hour)}}
	if until, got := w.complete(); until != 5*time.Hour || !reflect.DeepEqual(got, late) {
		t.Errorf("it is complete until %s, late are %+v", until, got)
	}
	other := claimOf("a", 0, at(8*time.Hour))
	other.Incarnation = "00"
	stream := claimOf("a", 0, at(8*time.Hour))
	stream.Stream = "shard/1"
	foreign := gatewayClaim("g", at(9*time.Hour+1))
	foreign.Host = "host_a"
	nowhere := claimOf("a", 0, at(8*time.Hour))
	nowhere.Namespace = "ns_none"
	for name, c := range map[string]*UsageClaim{
		"an earlier time": claimOf("a", 0, at(4*time.Hour)), "the same time": claimOf("a", 0, at(5*time.Hour)),
		"rows that were not applied": claimOf("a", 1, at(8*time.Hour)), "a host without a member": claimOf("b", 0, at(8*time.Hour)),
		"another incarnation": other, "another shard": stream, "no namespace": nowhere,
		"a host as a gateway": gatewayClaim("a", at(8*time.Hour)), "another gateway": foreign, "no gateway": gatewayClaim("none", at(8*time.Hour)),
	} {
		if n := w.claim(c); n != 0 {
			t.Errorf("a claim about %s was recorded", name)
		}
	}
	rows := frame("ns_x", 1, 3, &UsageRow{HourNs: 0, Queue: "q", InputTokens: 1})
	rows.Incarnation = hex.EncodeToString(minted("x")[0])
	w.ok(rows)
	w.reopen()
	// A clock that is ahead of the control plane's says nothing about the time to come.
	if n := w.claim(claimOf("a", 3, at(100*time.Hour)), gatewayClaim("g", at(10*time.Hour-time.Minute))); n != 2 {
		t.Errorf("%d claims were recorded", n)
	}
	if until, late := w.complete(); until != 10*time.Hour-time.Minute || late != nil {
		t.Errorf("it is complete until %s, late are %+v", until, late)
	}
	w.pass(time.Hour)
	if n := w.claim(claimOf("a", 3, at(101*time.Hour))); n != 1 {
		t.Error("the shard makes no claims any more")
	}
	// Neither a gateway that was removed nor a namespace that was deleted holds the organisation back.
	w.ok(&RemoveHost{Meta: by("op"), Id: "host_g"}, deletion("x"))
	w.pass(time.Hour)
	if until, late := w.complete(); until != 11*time.Hour || len(late) != 1 {
		t.Errorf("while the namespace is deleted it is complete until %s, late are %+v", until, late)
	}
	w.ok(atGeneration(2, removal("x")))
	if until, late := w.complete(); until != 12*time.Hour || late != nil {
		t.Errorf("without sources it is complete until %s, late are %+v", until, late)
	}
	if n := w.claim(claimOf("a", 3, at(12*time.Hour))); n != 0 {
		t.Error("a deleted namespace makes claims")
	}
}

// Completeness is decided by the oldest source, and lists a bounded number of late ones, the oldest first.
func TestCompleteness(t *testing.T) {
	t.Parallel()
	const now = int64(100 * time.Hour)
	bound := now - int64(billing.LateAfter)
	var many []UsageSource
	for i := range MaxLateSources + 1 {
		many = append(many, UsageSource{"ns", shardStream(i), int64(MaxLateSources - i)})
	}
	for name, c := range map[string]struct {
		sources []UsageSource
		until   int64
		late    int
	}{
		"none":          {nil, now, 0},
		"at the bound":  {[]UsageSource{{"ns", "shard/0", bound}, {"ns", "shard/1", now}}, bound, 0},
		"late":          {[]UsageSource{{"ns", "shard/0", bound - 1}, {"ns", "shard/1", now}}, bound - 1, 1},
		"ahead of now":  {[]UsageSource{{"ns", "shard/0", now + 1}}, now, 0},
		"too many late": {many, 0, MaxLateSources},
	} {
		got := completeness(c.sources, now)
		if got.UntilNs != c.until || len(got.Late) != c.late || c.late > 0 && got.Late[0].UntilNs != c.until {
			t.Errorf("%s: complete until %d, %d late", name, got.UntilNs, len(got.Late))
		}
	}
}

// An op has a bounded number of claims, each of a source that can exist.
func TestClaimsAreValid(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*RecordClaims){
		"none":               func(o *RecordClaims) { o.Claims = nil },
		"too many":           func(o *RecordClaims) { o.Claims = make([]*UsageClaim, MaxClaims+1) },
		"no host":            func(o *RecordClaims) { o.Claims[0].Host = "" },
		"no stream":          func(o *RecordClaims) { o.Claims[0].Stream = "" },
		"no incarnation":     func(o *RecordClaims) { o.Claims[0].Incarnation = "" },
		"a gateway's":        func(o *RecordClaims) { o.Claims[0].Namespace = "" },
		"no time":            func(o *RecordClaims) { o.Claims[0].UntilNs = 0 },
		"a row of 64 bits":   func(o *RecordClaims) { o.Claims[0].Last = 1 << 63 },
		"nothing is changed": func(*RecordClaims) {},
	} {
		o := &RecordClaims{Meta: by("reconciler"), Claims: []*UsageClaim{claimOf("a", 1, 1)}}
		change(o)
		if err := o.Validate(); (err == nil) != (name == "nothing is changed") || err != nil && api.CodeOf(err) != api.ValidationError {
			t.Errorf("%s: %v", name, err)
		}
	}
}
