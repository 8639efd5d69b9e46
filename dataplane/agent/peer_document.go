package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/tenancy"
)

// A member that is refused by another host may be so because that host has an older document of the namespace. The
// refusing host then asks the refused one for its document, so that members catch up with each other while the control
// plane is away. The signature of the control plane makes the document as good as one of the stream.

// callDocument asks a host for its document of a namespace: id of the namespace -> signedDocument (JSON). The number is
// permanent.
const callDocument transport.Kind = 64

// signedDocument is a document as the control plane signed it. Doc is no JSON value here, because encoding it again could
// change its bytes.
type signedDocument struct {
	Number    int64  `json:"number"`
	Doc       []byte `json:"doc"`
	Signature string `json:"signature"`
}

const (
	// askInterval is the least time between two requests to a store for the document of a namespace.
	askInterval = 10 * time.Second
	// askLimit bounds a request. The requests are sent one after another.
	askLimit = 2 * time.Second
	// maxAsks bounds the requests that wait. Further ones are dropped, because a refused member tries again.
	maxAsks = 64
)

// ask is a request to a store for its document of a namespace.
type ask struct {
	namespace tenancy.NamespaceID
	store     string
}

// ask requests the document of a namespace from a store soon. It does not block.
func (a *Agent) ask(ns tenancy.NamespaceID, store string) {
	select {
	case a.asks <- ask{ns, store}:
	default:
	}
}

// askLoop sends the requests for documents until ctx ends.
func (a *Agent) askLoop() {
	asked := map[ask]time.Time{}
	for {
		var q ask
		select {
		case <-a.ctx.Done():
			return
		case q = <-a.asks:
		}
		maps.DeleteFunc(asked, func(_ ask, at time.Time) bool { return time.Since(at) >= askInterval })
		if _, lately := asked[q]; lately {
			continue
		}
		asked[q] = time.Now()
		if err := a.adoptFrom(q); err != nil {
			a.cfg.Logger.Info("a store that this host refuses in a namespace has shown no document that names it", "namespace", q.namespace, "store", q.store, "error", err)
		}
	}
}

// adoptFrom adopts the document of a namespace that a store has, if it is newer than this host's.
func (a *Agent) adoptFrom(q ask) error {
	ctx, cancel := context.WithTimeout(a.ctx, askLimit)
	defer cancel()
	text, err := a.cfg.Transport.Call(ctx, transport.Peer{ID: q.store}, callDocument, []byte(q.namespace))
	if err != nil {
		return err
	}
	var shown signedDocument
	var d fleet.Doc
	if err := json.Unmarshal(text, &shown); err != nil {
		return fmt.Errorf("the store's answer: %w", err)
	}
	if err := json.Unmarshal(shown.Doc, &d); err != nil {
		return fmt.Errorf("the store's document: %w", err)
	}
	// A document that wants the other host to leave or to delete the namespace says nothing about this host.
	if d.Namespace != string(q.namespace) || d.Desired != fleet.Open || !namesStore(d, a.cfg.Store) {
		return fmt.Errorf("document %d of the store is about namespace %q, wants it %q and names %v", d.Number, d.Namespace, d.Desired, d.Members)
	}
	if reason := a.refusal(d); reason != "" {
		return fmt.Errorf("document %d of the store is refused: %s", d.Number, reason)
	}
	// Adopt verifies the signature.
	if err := a.catalogue.Adopt(fleet.Message{Number: shown.Number, Doc: shown.Doc, Signature: shown.Signature}); err != nil {
		return err
	}
	return a.applyDoc(d)
}

// answerDocument answers callDocument. It shows a document only to a store that the document names, because it has the
// hashes of the namespace's keys.
func (a *Agent) answerDocument(_ context.Context, from transport.Peer, request []byte) ([]byte, error) {
	if m, ok := a.catalogue.Message(string(request)); ok {
		var d fleet.Doc
		if err := json.Unmarshal(m.Doc, &d); err != nil {
			return nil, err
		}
		if namesStore(d, from.ID) {
			return json.Marshal(signedDocument{m.Number, m.Doc, m.Signature})
		}
	}
	return nil, api.Errorf(api.NotFound, "this host has no document of namespace %q that names %s", request, from.ID)
}
