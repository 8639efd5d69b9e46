package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// lines is an open stream of documents.
type lines struct {
	t    *testing.T
	scan *bufio.Scanner
	end  context.CancelFunc
}

// follow opens a stream.
func (f *front) follow(t *testing.T, service string, after int64) *lines {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s%s?after=%d", f.url, wire.DocsPath, after), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+service)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("the stream answers %s %v", resp.Status, resp.Header)
	}
	return &lines{t: t, scan: bufio.NewScanner(resp.Body), end: cancel}
}

// next returns the next message; ok is false at the end of the stream.
func (l *lines) next() (m wire.Message, ok bool) {
	l.t.Helper()
	if !l.scan.Scan() {
		return m, false
	}
	if err := json.Unmarshal(l.scan.Bytes(), &m); err != nil {
		l.t.Fatalf("%s: %v", l.scan.Bytes(), err)
	}
	return m, true
}

// docs returns the documents up to the next heartbeat.
func (l *lines) docs() (all []wire.Doc, beat wire.Message) {
	l.t.Helper()
	for {
		m, ok := l.next()
		if !ok {
			l.t.Fatal("the stream has ended")
		}
		if m.Doc == nil {
			return all, m
		}
		var d wire.Doc
		if err := json.Unmarshal(m.Doc, &d); err != nil {
			l.t.Fatal(err)
		}
		all = append(all, d)
	}
}

// settle places a namespace on the store of a host that has joined, and reports it open there. It returns once
// the reconciler has seen that.
func (f *front) settle(ns, host string) {
	f.t.Helper()
	meta := &store.Meta{Principal: "test"}
	on, err := f.store.Host(f.t.Context(), host)
	if err != nil {
		f.t.Fatal(err)
	}
	f.propose(&store.PlaceNamespace{Meta: meta, Id: ns, Generation: f.generation(ns), Stores: []string{on.Store}})
	n, err := f.store.Namespace(f.t.Context(), "", ns)
	if err != nil {
		f.t.Fatal(err)
	}
	founded := &store.FoundNamespace{Meta: meta, Id: ns, Generation: n.Generation}
	for _, i := range n.Incarnations {
		founded.Incarnations = append(founded.Incarnations, i[:])
	}
	f.propose(founded)
	f.propose(&store.SettleNamespace{Meta: meta, Id: ns, Generation: f.generation(ns), Configurations: []uint64{1}})
	for limit := time.Now().Add(waitLimit); f.server.cfg.Reconciler.Waiting(ns) != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			f.t.Fatalf("%s still waits: %s", ns, f.server.cfg.Reconciler.Waiting(ns))
		}
	}
}

func (f *front) generation(ns string) int64 {
	f.t.Helper()
	n, err := f.store.Namespace(f.t.Context(), "", ns)
	if err != nil {
		f.t.Fatal(err)
	}
	return n.Generation
}

// TestWhoLearnsWhat checks that a host receives only the documents of its own namespaces, and a gateway the
// documents of all namespaces. The documents are signed and arrive in order.
func TestWhoLearnsWhat(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	one, oneCredential := f.host("one", keyring.Host)
	two, twoCredential := f.host("two", keyring.Host)
	_, gateway := f.host("g", keyring.Gateway)
	mine, theirs, nowhere := f.namespace("acme", "mine"), f.namespace("acme", "theirs"), f.namespace("acme", "nowhere")
	service := map[string]string{"one": f.join(oneCredential, "http://one.test"), "two": f.join(twoCredential, "http://two.test"), "a gateway": f.join(gateway, "")}
	f.settle(mine, one)
	f.settle(theirs, two)
	f.made("/cloud/v1/namespaces/mine/keys", admin, "worker")
	names := func(docs []wire.Doc) (all []string) {
		for _, d := range docs {
			all = append(all, strings.TrimSpace(d.Kind+" "+d.Namespace))
		}
		slices.Sort(all)
		return all
	}
	newest, _ := f.store.Changes()
	for who, want := range map[string][]string{
		"one": {"placement " + mine, "keys " + mine, "tokens"}, "two": {"placement " + theirs, "tokens"},
		"a gateway": {"placement " + mine, "placement " + theirs, "placement " + nowhere, "keys " + mine, "tokens"},
	} {
		l := f.follow(t, service[who], 0)
		docs, beat := l.docs()
		slices.Sort(want)
		if !slices.Equal(names(docs), want) || beat.Number < newest {
			t.Errorf("%s learns of %q up to %d, want %q up to %d", who, names(docs), beat.Number, want, newest)
		}
		if !slices.IsSortedFunc(docs, func(a, b wire.Doc) int { return int(a.Number - b.Number) }) {
			t.Errorf("%s gets documents out of order", who)
		}
		if set, err := token.ParseSet(beat.JWKS); err != nil || set.Len() != 1 {
			t.Errorf("the first heartbeat has no keys: %s, %v", beat.JWKS, err)
		}
		if beat.Roots == nil || !beat.Roots.Equal(f.server.cfg.Authority.Bundle()) {
			t.Errorf("the first heartbeat has the roots %v", beat.Roots)
		}
		if m, _ := l.next(); m.JWKS != nil || m.Roots != nil || m.Doc != nil {
			t.Errorf("the second heartbeat: %+v", m)
		}
		// The follower does not receive documents that it has.
		if docs, _ := f.follow(t, service[who], beat.Number).docs(); len(docs) != 0 {
			t.Errorf("%s, which has all, is told %q", who, names(docs))
		}
	}
}

// While a host has a member of a namespace, it sees the namespace's document. If the namespace has left the host, the host
// learns of the departure and nothing else.
func TestWhatWasMine(t *testing.T) {
	t.Parallel()
	f := startFront(t)
	s := &stream{Server: f.server, member: member{}, sent: map[string]bool{}, given: map[keysOf]int64{}}
	s.host.ID, s.host.Kind = "host_1", keyring.Host
	members := func(stores ...string) (all []wire.GroupMember) {
		for _, text := range stores {
			number, role, _ := strings.Cut(text, " ")
			all = append(all, wire.GroupMember{Store: "store_" + number, Host: "host_" + number, Role: role})
		}
		return all
	}
	d := wire.Doc{Number: 7, Namespace: "ns_1", Name: "orders", Org: "org_1", Generation: 1, Desired: wire.Open, Keys: []wire.Key{{ID: "k"}}}
	for _, of := range [][]string{{"1 found", "2 join"}, {"2 found", "1 join"}, {"2 join", "1 leaving"}} {
		d.Members = members(of...)
		if got, ok := s.share(d); !ok || got.Name != "orders" {
			t.Errorf("of %q: %+v, %v", of, got, ok)
		}
	}
	d.Number, d.Generation, d.Members, d.Epoch, d.Incarnations = 8, 2, members("2 found", "3 join"), 1, []entry.Incarnation{{2}}
	if got, ok := s.share(d); ok {
		t.Errorf("before another store has founded it: %+v", got)
	}
	d.Number, d.Members, d.Configurations = 9, members("2 join", "3 join"), []uint64{4}
	got, ok := s.share(d)
	want := wire.Doc{Number: 9, Namespace: "ns_1", Generation: 2, Desired: wire.Leave, Epoch: 1, Members: d.Members, Configurations: d.Configurations, Incarnations: d.Incarnations}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || !ok {
		t.Errorf("what was its own: sent %v (-want +got):\n%s", ok, diff)
	}
	if got, ok := s.share(d); ok {
		t.Errorf("the same again: %+v", got)
	}
	// A host that was away may have had the namespace if it can have moved.
	s.again = true
	if _, ok := s.share(d); !ok {
		t.Error("a host that was away does not learn that a namespace has moved")
	}
	d.Members = nil
	if got, ok := s.share(d); ok {
		t.Errorf("a namespace that is nowhere yet: %+v", got)
	}
	d.Desired, d.Members = wire.Absent, members("2 join")
	if got, ok := s.share(d); ok {
		t.Errorf("a namespace that other hosts delete: %+v", got)
	}
	s.sent[d.Namespace] = true
	if got, ok := s.share(d); !ok || got.Desired != wire.Absent {
		t.Errorf("a namespace that was its own and that other hosts delete: %+v, %v", got, ok)
	}
	d.Desired, d.Generation = wire.Open, 1
	if got, ok := s.share(d); ok {
		t.Errorf("a namespace that was never anywhere else: %+v", got)
	}
	s.host.Kind = keyring.Gateway
	if got, ok := s.share(d); !ok || len(got.Keys) != 1 {
		t.Errorf("a gateway's: %+v, %v", got, ok)
	}
}

// TestStreamsEnd checks that a stream ends when its credential is revoked, its token expires or the server
// shuts down. A server that shuts down refuses new streams.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	_, credential := f.host("one", keyring.Host)
	_, other := f.host("two", keyring.Host)
	_, third := f.host("three", keyring.Gateway)
	revoked := f.follow(t, f.join(credential, "http://one.test"), 0)
	revoked.docs()
	f.revoke(credential)
	for ok := true; ok; {
		_, ok = revoked.next()
	}
	expired := f.follow(t, f.join(other, "http://two.test"), 0)
	expired.docs()
	f.ahead.Add(int64(token.Lifetime + token.Leeway))
	for ok := true; ok; {
		_, ok = expired.next()
	}
	service := f.join(third, "")
	last := f.follow(t, service, 0)
	last.docs()
	f.server.Drain()
	for ok := true; ok; {
		_, ok = last.next()
	}
	if a := f.send("GET", wire.DocsPath, service, ""); a.problem(t).Code != api.Unhealthy {
		t.Errorf("a stream while shutting down: %d %s", a.status, a.body)
	}
}

// A follower with a document number from the future is refused, because this control plane has lost changes
// and must not hide it.
func TestAFollowerFromTheFuture(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	_, credential := f.host("one", keyring.Host)
	service := f.join(credential, "http://one.test")
	for after, code := range map[string]api.Code{"1000000": api.StateConflict, "-1": api.ValidationError, "x": api.ValidationError} {
		if a := f.send("GET", wire.DocsPath+"?after="+after, service, ""); a.problem(t).Code != code {
			t.Errorf("after %s: %d %s", after, a.status, a.body)
		}
	}
}

// A join records the address of a host. Only a change goes to the log.
func TestJoin(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	id, credential := f.host("one", keyring.Host)
	_, gateway := f.host("g", keyring.Gateway)
	for _, body := range []string{`{"address":"one:8080"}`, `{"address":"ftp://one"}`, `{"address":"http://u:p@one"}`, `{"address":"http://one?x=1"}`} {
		body = strings.Replace(body, "{", `{"format":1,"store":"`+newStoreID(t)+`",`, 1)
		if a := f.send("POST", wire.JoinPath, credential, body); a.problem(t).Code != api.ValidationError {
			t.Errorf("join as %s: %d %s", body, a.status, a.body)
		}
	}
	for _, c := range []struct{ credential, body, want string }{
		{credential, `{"address":"","format":1}`, "address is missing: the credential is a host's; start a gateway with one of kind gateway, from POST /cloud/v1/hosts"},
		{gateway, `{"address":"http://g","format":1}`, "address is set: the credential is a gateway's; start a host with one of kind host, from POST /cloud/v1/hosts"},
	} {
		a := f.send("POST", wire.JoinPath, c.credential, c.body)
		if p := a.problem(t); p.Code != api.ValidationError || p.Error != c.want {
			t.Errorf("join as %s with the credential of the other kind: %d %s", c.body, a.status, a.body)
		}
	}
	for body, as := range map[string]string{
		`{"address":"http://one"}`:                                          credential,
		`{"address":"http://one","store":"host-1"}`:                         credential,
		`{"address":"http://one","store":"` + newStoreID(t) + `","run":-1}`: credential,
		`{"store":"` + newStoreID(t) + `"}`:                                 gateway,
	} {
		body = strings.Replace(body, "{", `{"format":1,`, 1)
		if a := f.send("POST", wire.JoinPath, as, body); a.problem(t).Code != api.ValidationError {
			t.Errorf("join as %s: %d %s", body, a.status, a.body)
		}
	}
	for kind, as := range map[string]string{"host": credential, "gateway": gateway} {
		body := `{"version":"v0"}`
		if kind == "host" {
			body = `{"address":"http://one","store":"` + newStoreID(t) + `"}`
		}
		a := f.send("POST", wire.JoinPath, as, body)
		if want := "format is 0, the highest format of documents that this process reads, and the control plane's have format 1: upgrade this process"; a.problem(t).Error != want {
			t.Errorf("a %s of an earlier build: %d %s", kind, a.status, a.body)
		}
	}
	f.join(credential, "http://one.test")
	before := f.audited()
	f.join(credential, "http://one.test")
	if after := f.audited(); after != before {
		t.Errorf("joining again as before made %d changes", after-before)
	}
	f.join(credential, "http://moved.test")
	host, err := f.cloud(f.operator).Host(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if s := host.Status; s.Address != "http://moved.test" || s.Version != "v1" || s.LastSeenAt == nil {
		t.Errorf("the host's status: %+v", s)
	}
	if after := f.audited(); after != before+1 {
		t.Errorf("moving made %d changes", after-before)
	}
}

// A join records the address of a host's Raft members. A change gives the documents of its namespaces new numbers, and
// an address that other hosts could not connect to is refused.
func TestJoinWithARaftAddress(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	id, credential := f.host("one", keyring.Host)
	_, gateway := f.host("g", keyring.Gateway)
	store := newStoreID(t)
	join := func(credential, address, raft string) answer {
		return f.send("POST", wire.JoinPath, credential, fmt.Sprintf(`{"address":%q,"store":%q,"raft":%q,"format":1}`, address, store, raft))
	}
	long := strings.Repeat("h", 255-len(":1")) + ":1"
	for _, c := range []struct{ raft, says string }{
		{"h", "is not host:port"}, {":8083", "is not host:port"}, {"h:0", "is not host:port"}, {"h:raft", "is not host:port"}, {"h:65536", "is not host:port"},
		{"h" + long, "raft has 256 bytes: at most 255 are allowed"},
	} {
		if p := join(credential, "http://one.test", c.raft).problem(t); p.Code != api.ValidationError || !strings.Contains(p.Error, c.says) {
			t.Errorf("%q: %+v", c.raft, p)
		}
	}
	a := f.send("POST", wire.JoinPath, gateway, `{"raft":"h:1","format":1}`)
	if p := a.problem(t); p.Code != api.ValidationError || !strings.Contains(p.Error, "only a host has Raft members") {
		t.Errorf("a gateway: %+v", p)
	}
	ns := f.namespace("acme", "mine")
	if a := join(credential, "http://one.test", long); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	f.settle(ns, id)
	number := func() int64 {
		t.Helper()
		n, err := f.store.Namespace(t.Context(), "", ns)
		if err != nil {
			t.Fatal(err)
		}
		return n.DocNumber
	}
	before := number()
	if a := join(credential, "http://one.test", "[2001:db8::7]:8083"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	host, err := f.store.Host(t.Context(), id)
	if err != nil || host.Raft != "[2001:db8::7]:8083" {
		t.Errorf("the host is reached at %q: %v", host.Raft, err)
	}
	if after := number(); after <= before {
		t.Errorf("the document kept number %d", before)
	}
}

// Reports set the last use of keys. Unknown keys are ignored.
func TestReports(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	f.namespace("acme", "orders")
	_, credential := f.host("one", keyring.Host)
	_, gatewayCredential := f.host("g", keyring.Gateway)
	host, gateway := f.join(credential, "http://one.test"), f.join(gatewayCredential, "")
	key, err := f.cloud(admin).CreateNamespaceKey(t.Context(), "orders", api.CreateCloudKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, operatorID, _ := keyring.Parse(f.operator)
	at, later := f.now().Add(-time.Hour).Unix(), f.now().Add(time.Hour).Unix()
	body := func(unix int64) string {
		return fmt.Sprintf(`{"sequence":1,"last_used":{%q:%d,"nobody":%d,%q:%d}}`, key.ID, unix, unix, operatorID, later)
	}
	used := func() time.Time {
		t.Helper()
		k, err := f.cloud(admin).NamespaceKey(t.Context(), "orders", key.ID)
		if err != nil || k.LastUsedAt == nil {
			t.Fatalf("the key: %+v, %v", k, err)
		}
		at, _, err := k.LastUsedAt.Parse()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if a := f.send("POST", wire.ReportPath, host, body(at)); a.status != 200 {
		t.Fatalf("report: %d %s", a.status, a.body)
	}
	if got := used().Unix(); got != at {
		t.Errorf("last used at %d, want %d", got, at)
	}
	// The last use never moves backwards, and never ahead of the control plane's clock.
	f.send("POST", wire.ReportPath, gateway, body(at-1000))
	if got := used().Unix(); got != at {
		t.Errorf("an older report took it back to %d from %d", got, at)
	}
	f.send("POST", wire.ReportPath, gateway, body(later))
	if got := used(); got.After(f.now()) {
		t.Errorf("a report from the future: %v", got)
	}
	if f.server.lastUsed.unix("nobody") != 0 || f.server.lastUsed.unix(operatorID) >= later {
		t.Error("a report was taken for a key that is none of a tenant's")
	}
	for _, c := range []struct{ key, body string }{
		{host, `{"sequence":2,"cells":[{"namespace":"","generation":1,"state":"open"}]}`},
		{host, `{"sequence":2,"cells":[{"namespace":"n","generation":1,"state":"on fire"}]}`},
		{gateway, `{"cells":[{"namespace":"n","generation":1,"state":"open"}]}`},
		{host, `{"sequence":2,"capacity":{"max_cells":0}}`},
		{host, `{"sequence":2,"capacity":{"max_cells":1,"open_cells":-1}}`},
		{host, `{"sequence":2,"capacity":{"max_cells":1,"disk_total":1,"disk_free":2}}`},
		{host, `{"sequence":2,"capacity":{"max_cells":1,"disk_total":2,"disk_free":1}}`},
		{host, `{"sequence":2,"capacity":{"max_cells":1,"max_disk_percent":101}}`},
		{host, withIncarnations(store.MaxShards + 1)},
		{host, withGroups(store.MaxShards+1, 2)},
		{host, withGroups(1, wire.MaxReportMembers+1)},
		{host, `{}`},
		{host, `{"sequence":2,"base":2}`},
		{host, `{"sequence":2,"base":-1}`},
		{host, withKeys(wire.MaxReportKeys + 1)},
	} {
		if a := f.send("POST", wire.ReportPath, c.key, c.body); a.problem(t).Code != api.ValidationError {
			t.Errorf("the report %.60s: %d %.200s", c.body, a.status, a.body)
		}
	}
	for _, most := range []string{withIncarnations(store.MaxShards), withKeys(wire.MaxReportKeys), withGroups(store.MaxShards, 2), withGroups(1, wire.MaxReportMembers)} {
		if a := f.send("POST", wire.ReportPath, host, most); a.status != http.StatusOK {
			t.Errorf("a report at a bound: %d %.200s", a.status, a.body)
		}
	}
}

// withGroups returns a report with the groups of a namespace, each with some members, of which one is a learner.
func withGroups(number, members int) string {
	group := `,{"role":"leading","learners":["s"],"voters":["s"` + strings.Repeat(`,"s"`, members-2) + `]}`
	return `{"sequence":2,"cells":[{"namespace":"n","generation":1,"state":"open","groups":[` + strings.Repeat(group, number)[1:] + `]}]}`
}

// withKeys returns a report with the last uses of some keys.
func withKeys(number int) string {
	keys := make([]string, number)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"key_%d":1`, i)
	}
	return `{"sequence":2,"last_used":{` + strings.Join(keys, ",") + `}}`
}

// withIncarnations returns a report with the incarnations of a namespace's shards.
func withIncarnations(shards int) string {
	all := strings.Repeat(`,"`+entry.Incarnation{1}.String()+`"`, shards)
	return `{"sequence":2,"cells":[{"namespace":"n","generation":1,"state":"open","incarnations":[` + all[1:] + `]}]}`
}

// A gateway has a second token for hosts, which is refused at the control plane. A host has no such token.
func TestAudiences(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	_, host := f.host("one", keyring.Host)
	_, gateway := f.host("g", keyring.Gateway)
	set, _ := f.server.cfg.Signer.Trusted()
	for credential, address := range map[string]string{host: "http://one.test", gateway: ""} {
		join := wire.JoinRequest{Address: address}
		if credential == host {
			join.Store = newStoreID(t)
		}
		joined := f.joinAs(credential, join)
		if _, err := set.Verify(joined.Token, token.Hosts, f.now()); api.CodeOf(err) != api.Unauthorized {
			t.Errorf("a token for the control plane at a host: %v", err)
		}
		if credential == host {
			if joined.HostToken != "" {
				t.Error("a host has a token for hosts")
			}
			continue
		}
		if c, err := set.Verify(joined.HostToken, token.Hosts, f.now()); err != nil || tenancy.Role(c.Role) != tenancy.GatewayMember {
			t.Errorf("a gateway's token at a host: %+v, %v", c, err)
		}
		if a := f.send("POST", wire.ReportPath, joined.HostToken, "{}"); a.status != 401 {
			t.Errorf("a gateway's token for hosts here: %d %s", a.status, a.body)
		}
	}
}
