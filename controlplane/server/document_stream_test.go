package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// kinds returns the kinds of documents in their order, repeated ones once.
func kinds(docs []wire.Doc) string {
	var all []string
	for _, d := range docs {
		all = append(all, d.Kind)
	}
	return strings.Join(slices.Compact(all), " ")
}

// A host that gets its first namespace of an organisation gets the organisation's tokens and the namespace's keys before the
// placement, although they are older than its position. It gets them again with the first placement of a stream, and with
// the next one after a namespace has left it, because it may have forgotten them; otherwise only after a change. The keys
// of a namespace that is being deleted are no document any more.
func TestKeysComeBeforeThePlacement(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	one, oneCredential := f.host("one", keyring.Host)
	other, otherCredential := f.host("two", keyring.Host)
	service := f.join(oneCredential, "http://one.test")
	f.join(otherCredential, "http://two.test")
	f.reachable(one)
	to := f.reachable(other)
	ns, second := f.namespace("acme", "mine"), f.namespace("acme", "second")
	f.made("/cloud/v1/namespaces/mine/keys", admin, "worker")
	l := f.follow(t, service, 0)
	step := func(name, want string) (docs []wire.Doc, beat wire.Message) {
		t.Helper()
		// A heartbeat may have been under way before the change.
		for newest, _ := f.store.Changes(); beat.Number < newest; {
			var more []wire.Doc
			more, beat = l.docs()
			docs = append(docs, more...)
		}
		if kinds(docs) != want {
			t.Errorf("%s: %s, want %s", name, kinds(docs), want)
		}
		return docs, beat
	}
	_, before := step("before it has a namespace", "")
	f.settle(ns, one)
	docs, _ := step("its first namespace", "tokens keys placement")
	if len(docs) < 3 || docs[0].Number > before.Number || docs[1].Number > before.Number || len(docs[0].Keys) == 0 || len(docs[1].Keys) != 1 {
		t.Errorf("its first namespace: %+v, after %d", docs, before.Number)
	}
	f.settle(second, one)
	step("the second namespace, without keys", "placement")
	f.made("/cloud/v1/namespaces/second/keys", admin, "worker")
	_, position := step("a key", "keys")
	meta := &store.Meta{Principal: "test"}
	f.propose(&store.PlaceNamespace{Meta: meta, Id: second, Generation: f.generation(second), Stores: []string{to}})
	f.propose(&store.SettleNamespace{Meta: meta, Id: second, Generation: f.generation(second), Configurations: []uint64{9}})
	l = f.follow(t, service, position.Number)
	step("a namespace leaves", "placement")
	f.join(oneCredential, "http://moved.test") // a new address, and so a new placement
	step("the next placement", "tokens keys placement")
	f.made("/cloud/v1/namespaces/mine/keys", admin, "worker")
	_, position = step("a change", "keys")
	f.propose(&store.DeleteNamespace{Meta: meta, Id: ns, OperationId: "op_delete"})
	l = f.follow(t, service, position.Number)
	step("it is being deleted", "placement")
	if all, err := f.store.KeyDocs(t.Context(), ns, "", func(string, string) int64 { return 0 }); err != nil || len(all) != 0 {
		t.Errorf("a namespace that is being deleted has the documents %+v, %v", all, err)
	}
}

// One change of a token sends one document to a gateway, however many namespaces the organisation has.
func TestATokenIsSentOnce(t *testing.T) {
	t.Parallel()
	f := startFront(t)
	f.host("h1", keyring.Host)
	org := f.org("acme")
	f.credential(keyring.Org, org, tenancy.Admin)
	_, credential := f.host("g", keyring.Gateway)
	service := f.join(credential, "")
	const count = 20 // the numbers of ADR 0080 are for 1,000
	for i := range count {
		f.namespace("acme", fmt.Sprint("n", i))
	}
	newest, _ := f.store.Changes()
	l := f.follow(t, service, newest)
	f.credential(keyring.Org, org, tenancy.ReadOnly)
	after, _ := f.store.Changes()
	var docs []wire.Doc
	for beat := (wire.Message{}); beat.Number < after; {
		var more []wire.Doc
		more, beat = l.docs()
		docs = append(docs, more...)
	}
	size := 0
	for _, d := range docs {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
	}
	t.Logf("%d namespaces: a token sends %d documents with %d bytes", count, len(docs), size)
	if kinds(docs) != wire.KindTokens || len(docs) != 1 || len(docs[0].Keys) != 2 {
		t.Errorf("%s: %+v", kinds(docs), docs)
	}
}
