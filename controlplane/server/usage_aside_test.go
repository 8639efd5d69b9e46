package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// bad makes a frame one that the control plane refuses for its row.
func bad(frame string) string {
	return strings.Replace(frame, `"quantity":1`, `"quantity":-1`, 1)
}

// Only the host of a namespace that is being deleted can have usage set aside, and only usage that is
// refused. An operator sees each frame unchanged.
func TestUsageSetAside(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	one, oneCredential := f.host("one", keyring.Host)
	_, twoCredential := f.host("two", keyring.Host)
	gatewayID, gatewayCredential := f.host("g", keyring.Gateway)
	ns := f.namespace("acme", "mine")
	host, other, gateway := f.join(oneCredential, "http://one.test"), f.join(twoCredential, "http://two.test"), f.join(gatewayCredential, "")
	f.settle(ns, one)
	send := func(key, body string, code api.Code, last uint64) {
		t.Helper()
		a := f.send("POST", wire.AsidePath, key, body)
		if code != "" {
			if a.problem(t).Code != code {
				t.Errorf("%s: %d %s, want %s", body, a.status, a.body, code)
			}
			return
		}
		var answer wire.UsageAnswer
		if err := json.Unmarshal(a.body, &answer); err != nil || a.status != http.StatusOK || answer.Last != last {
			t.Errorf("%s: %d %s, want last %d", body, a.status, a.body, last)
		}
	}
	refused := bad(f.frame(ns, "shard/0", 1, 3))
	if a := f.send("POST", wire.UsagePath, host, refused); a.problem(t).Code != api.ValidationError {
		t.Errorf("the frame itself: %d %s", a.status, a.body)
	}
	send(host, refused, api.StateConflict, 0) // nobody deletes the namespace
	if _, err := f.cloud(admin).DeleteNamespace(t.Context(), "mine", 0); err != nil {
		t.Fatal(err)
	}
	send(other, refused, api.Forbidden, 0)
	send(gateway, refused, api.Forbidden, 0)
	send(gateway, bad(f.frame(ns, "gateway/"+gatewayID, 1, 3)), api.Forbidden, 0)
	send(host, bad(f.frame(ns, "gateway/"+gatewayID, 1, 3)), api.Forbidden, 0)
	send(host, bad(f.frame(ns, "shard/0", 2, 3)), api.StateConflict, 0)
	send(host, `{"namespace":`, api.ParseError, 0)
	for range 2 { // a repeat changes nothing
		send(host, refused, "", 3)
	}
	send(host, f.frame(ns, "shard/0", 4, 4), "", 4) // not refused: it counts
	unreadable := strings.Replace(f.frame(ns, "shard/0", 5, 6), `"quantity":10`, `"quantity":1e40`, 1)
	send(host, unreadable, "", 6)
	if a := f.send("GET", wire.UsagePath+"?namespace="+ns+"&incarnation=ab&stream=shard/0", host, ""); string(a.body) != "{\"last\":6}\n" {
		t.Errorf("last: %d %s", a.status, a.body)
	}
	f.seesAside(ns, refused, unreadable)
	if _, err := f.cloud(admin).AsideUsage(t.Context()); api.CodeOf(err) != api.Forbidden {
		t.Errorf("a tenant reads what was set aside: %v", err)
	}
	rows, err := f.cloud(admin).Audit(t.Context(), "acme")
	said := slices.IndexFunc(rows, func(r api.AuditRow) bool {
		return r.Action == "set-aside-usage" && r.Target == ns && r.Principal == one
	})
	if err != nil || said < 0 {
		t.Errorf("the audit log: %+v, %v", rows, err)
	}
}

// Usage ahead of the control plane's clock, of a host or a gateway, is set aside, and its sender goes on.
func TestUsageAheadIsSetAside(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	id, credential := f.host("g", keyring.Gateway)
	ns := f.namespace("acme", "mine")
	gateway := f.join(credential, "")
	rows := []billing.Row{
		{Dimensions: billing.Dimensions{HourNs: f.now().Truncate(time.Hour).UnixNano()}, Meter: billing.Requests, Quantity: 5},
		{Dimensions: billing.Dimensions{HourNs: f.now().Add(3 * time.Hour).Truncate(time.Hour).UnixNano()}, Meter: billing.Requests, Quantity: 7},
	}
	frame, err := json.Marshal(billing.Frame{Source: billing.Source{Namespace: ns, Stream: "gateway/" + id, Incarnation: "ab"}, From: 1, To: 12, Rows: rows, Hash: billing.HashRows(rows)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is a repeat
		if a := f.send("POST", wire.UsagePath, gateway, string(frame)); string(a.body) != "{\"last\":12}\n" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	all, err := f.cloud(f.operator).AsideUsage(t.Context())
	if err != nil || len(all) != 1 || all[0].Stream != "gateway/"+id {
		t.Errorf("set aside: %+v, %v", all, err)
	}
	report, err := f.cloud(admin).NamespaceUsage(t.Context(), "mine", client.UsageQuery{})
	if err != nil || report.Totals.Requests.Int64() != 5 {
		t.Errorf("used %+v, %v", report.Totals, err)
	}
}

// seesAside checks that operators see two frames that were set aside, each as it came.
func (f *front) seesAside(ns, refused, unreadable string) {
	t := f.t
	t.Helper()
	ops := f.cloud(f.operator)
	all, err := ops.AsideUsage(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("set aside: %+v, %v", all, err)
	}
	got := all[0]
	if got.Org == "" || !strings.Contains(got.Reason, "negative") {
		t.Errorf("set aside of the organisation %q because %q", got.Org, got.Reason)
	}
	want := api.AsideUsage{
		Seq: got.Seq, At: got.At, Org: got.Org, Namespace: ns, Stream: "shard/0", Incarnation: got.Incarnation, From: 1, To: 3,
		Code: string(api.ValidationError), Reason: got.Reason, Bytes: int64(len(refused)),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("set aside (-want +got):\n%s", diff)
	}
	for i, want := range []string{refused, unreadable} {
		if got, err := ops.AsideUsageFrame(t.Context(), all[i].Seq); err != nil || string(got.Frame) != want {
			t.Errorf("frame %d: %s, %v; want %s", all[i].Seq, got.Frame, err, want)
		}
	}
	for path, code := range map[string]api.Code{"/1": api.NotFound, "/0": api.NotFound, "/x": api.NotFound, "?limit=0": api.ValidationError} {
		if a := f.send("GET", "/cloud/v1/usage/aside"+path, f.operator, ""); a.problem(t).Code != code {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	var page api.Page[api.AsideUsage]
	if err := json.Unmarshal(f.send("GET", "/cloud/v1/usage/aside?limit=1", f.operator, "").body, &page); err != nil || len(page.Items) != 1 || page.Cursor == "" {
		t.Fatalf("the first page: %+v, %v", page, err)
	}
	rest := f.send("GET", "/cloud/v1/usage/aside?limit=1&cursor="+page.Cursor, f.operator, "")
	if !strings.Contains(string(rest.body), fmt.Sprintf(`"seq":%d`, all[1].Seq)) {
		t.Errorf("the second page: %d %s", rest.status, rest.body)
	}
}

// A frame of the largest size that a host may send is set aside.
func TestTheLargestUsageSetAside(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	one, credential := f.host("one", keyring.Host)
	ns := f.namespace("acme", "mine")
	host := f.join(credential, "http://one.test")
	f.settle(ns, one)
	if _, err := f.cloud(admin).DeleteNamespace(t.Context(), "mine", 0); err != nil {
		t.Fatal(err)
	}
	frame := bad(f.frame(ns, "shard/0", 1, 1))
	padded := func(n int) string {
		return strings.Replace(frame, `"mail"`, `"`+strings.Repeat("m", n-len(frame)+len("mail"))+`"`, 1)
	}
	if a := f.send("POST", wire.AsidePath, host, padded(store.MaxAsideFrame+1)); a.problem(t).Code != api.PayloadTooLarge {
		t.Errorf("a frame that is too large: %d %.200s", a.status, a.body)
	}
	if a := f.send("POST", wire.AsidePath, host, padded(store.MaxAsideFrame)); a.status != http.StatusOK {
		t.Errorf("the largest frame: %d %.200s", a.status, a.body)
	}
	if all, err := f.cloud(f.operator).AsideUsage(t.Context()); err != nil || len(all) != 1 || all[0].Bytes != store.MaxAsideFrame {
		t.Errorf("set aside: %.300v, %v", all, err)
	}
}

// A namespace may have MaxNamespaceAsideBytes set aside. Then its host is told to try again later, and the
// figures of the metrics say so. An operator, and nobody else, removes a frame, and the host's next try succeeds.
func TestUsageSetAsideIsBounded(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	one, credential := f.host("one", keyring.Host)
	ns := f.namespace("acme", "mine")
	host := f.join(credential, "http://one.test")
	f.settle(ns, one)
	if _, err := f.cloud(admin).DeleteNamespace(t.Context(), "mine", 0); err != nil {
		t.Fatal(err)
	}
	const most = store.MaxNamespaceAsideBytes / store.MaxAsideFrame
	send := func(at uint64) answer {
		frame := bad(f.frame(ns, "shard/0", at, at))
		return f.send("POST", wire.AsidePath, host, strings.Replace(frame, `"mail"`, `"`+strings.Repeat("m", store.MaxAsideFrame-len(frame)+len("mail"))+`"`, 1))
	}
	for at := range uint64(most) {
		if a := send(at + 1); a.status != http.StatusOK {
			t.Fatalf("frame %d: %d %.200s", at+1, a.status, a.body)
		}
	}
	more := send(most + 1)
	if more.problem(t).Code != api.Overloaded || more.status != http.StatusTooManyRequests || !strings.Contains(string(more.body), "/cloud/v1/usage/aside/") {
		t.Errorf("one frame more: %d %.300s", more.status, more.body)
	}
	if after := more.header.Get("Retry-After"); after != "30" {
		t.Errorf("one frame more: Retry-After %q", after)
	}
	if a := send(most); a.status != http.StatusOK {
		t.Errorf("a repeat: %d %.200s", a.status, a.body)
	}
	figures := string(f.send("GET", "/metrics", f.operator, "").body)
	for _, want := range []string{fmt.Sprintf("corvo_usage_aside_frames %d\n", most), "corvo_usage_aside_bytes 3.3554432e+07\n"} {
		if !strings.Contains(figures, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	all, err := f.cloud(f.operator).AsideUsage(t.Context())
	if err != nil || len(all) != most {
		t.Fatalf("%d frames, %v", len(all), err)
	}
	path := fmt.Sprintf("/cloud/v1/usage/aside/%d", all[0].Seq)
	for _, key := range []string{admin, host} {
		if a := f.send("DELETE", path, key, ""); a.status != http.StatusForbidden && a.status != http.StatusUnauthorized {
			t.Errorf("removed by %.8s: %d %s", key, a.status, a.body)
		}
	}
	if err := f.cloud(f.operator).RemoveAsideUsage(t.Context(), all[0].Seq); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{path, "/cloud/v1/usage/aside/0", "/cloud/v1/usage/aside/x"} {
		if a := f.send("DELETE", gone, f.operator, ""); a.problem(t).Code != api.NotFound {
			t.Errorf("DELETE %s: %d %s", gone, a.status, a.body)
		}
	}
	if a := send(most + 1); a.status != http.StatusOK {
		t.Errorf("with room: %d %.200s", a.status, a.body)
	}
}
