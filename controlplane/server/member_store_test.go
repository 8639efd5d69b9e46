package server

import (
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// A token of an older process of a host is refused on every route of a member, and its stream ends. The
// operator sees the store of the newest one.
func TestOnlyTheNewestProcessOfAHostIsServed(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	_, credential := f.host("one", keyring.Host)
	store := newStoreID(t)
	join := wire.JoinRequest{Address: "http://old", Version: "v1", Store: store}
	old := f.joinAs(credential, join)
	if a := f.send("POST", wire.ReportPath, old.Token, `{"sequence":1}`); a.status != 200 {
		t.Fatalf("a report: %d %s", a.status, a.body)
	}
	f.wantStore("one", store, api.StoreServing)
	join.Address = "http://new"
	newest := f.joinAs(credential, join)
	if newest.Run != old.Run+1 {
		t.Errorf("the runs are %d and %d", old.Run, newest.Run)
	}
	for path, method := range map[string]string{wire.ReportPath: "POST", wire.DocsPath: "GET", wire.UsagePath: "GET"} {
		refused := f.send(method, path, old.Token, "{}").problem(t)
		if refused.Code != api.StateConflict || refused.Details["store"] != store || refused.Details["address"] != "http://new" {
			t.Errorf("%s with the older token: %+v", path, refused)
		}
	}
	if a := f.send("POST", wire.JoinPath, credential, `{"address":"http://old","version":"v1","store":"`+store+`","run":1,"format":1}`); a.problem(t).Code != api.StateConflict {
		t.Errorf("the older process joins again: %d %s", a.status, a.body)
	}
	if a := f.send("POST", wire.ReportPath, newest.Token, `{"sequence":1}`); a.status != 200 {
		t.Errorf("a report of the newest: %d %s", a.status, a.body)
	}
	_, other := f.host("two", keyring.Host)
	if a := f.send("POST", wire.JoinPath, other, `{"address":"http://two","version":"v1","store":"`+store+`","format":1}`); a.problem(t).Code != api.StateConflict {
		t.Errorf("the store of another host: %d %s", a.status, a.body)
	}
}

func (f *front) wantStore(host, store, state string) {
	f.t.Helper()
	h, err := f.cloud(f.operator).Host(f.t.Context(), host)
	if err != nil || h.Status.Store != store || h.Status.StoreState != state {
		f.t.Errorf("the host shows %+v (%v), want store %s, %s", h.Status, err, store, state)
	}
}
