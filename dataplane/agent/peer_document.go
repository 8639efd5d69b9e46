package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/tenancy"
)

// A member that is refused by another host may be so because that host has an older placement of the namespace. The
// refusing host then asks the refused one for its documents, so that members catch up with each other while the control
// plane is away. The signature of the control plane makes the documents as good as those of the stream.
//
// A placement comes with the keys and the tokens that its holder has. The holder got them before the placement or is itself
// newer, from the stream or from a holder, so they are at least as new as the placement. Otherwise a host that had forgotten a
// revoked token could learn it again with a newer placement.

// callDocuments asks a host for its documents of a namespace: id of the namespace -> []signedDocument (JSON), the placement
// last. The number is permanent; 64 is that of a call of an earlier version, which returned one document.
const callDocuments transport.Kind = 65

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

// ask requests the documents of a namespace from a store soon. It does not block.
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

// adoptFrom adopts the documents of a namespace that a store has, as far as they are newer than this host's.
func (a *Agent) adoptFrom(q ask) error {
	ctx, cancel := context.WithTimeout(a.ctx, askLimit)
	defer cancel()
	text, err := a.cfg.Transport.Call(ctx, transport.Peer{ID: q.store}, callDocuments, []byte(q.namespace))
	if err != nil {
		return err
	}
	var shown []signedDocument
	if err := json.Unmarshal(text, &shown); err != nil {
		return fmt.Errorf("the store's answer: %w", err)
	}
	if len(shown) == 0 {
		return errors.New("the store's answer has no document")
	}
	docs := make([]fleet.Doc, len(shown))
	for i, s := range shown {
		if err := json.Unmarshal(s.Doc, &docs[i]); err != nil {
			return fmt.Errorf("the store's document: %w", err)
		}
	}
	d := docs[len(docs)-1]
	// A document that wants the other host to leave or to delete the namespace says nothing about this host.
	if !d.IsPlacement() || d.Namespace != string(q.namespace) || d.Desired != fleet.Open || !namesStore(d, a.cfg.Store) {
		return fmt.Errorf("document %d of the store is about namespace %q, wants it %q and names %v", d.Number, d.Namespace, d.Desired, d.Members)
	}
	if reason := a.refusal(d); reason != "" {
		return fmt.Errorf("document %d of the store is refused: %s", d.Number, reason)
	}
	for i, before := range docs[:len(docs)-1] {
		if before.IsPlacement() || before.Org != d.Org || before.Kind == fleet.KindKeys && before.Namespace != d.Namespace {
			return fmt.Errorf("document %d of the store does not belong to document %d", before.Number, d.Number)
		}
		if err := a.adopt(shown[i]); err != nil {
			return err
		}
		a.applyKeys(before) // whatever their generation, because they belong to a placement that is not refused
	}
	if err := a.adopt(shown[len(shown)-1]); err != nil {
		return err
	}
	return a.applyDoc(d)
}

// adopt stores a document of another host. The catalogue verifies the signature.
func (a *Agent) adopt(shown signedDocument) error {
	return a.catalogue.Adopt(fleet.Message{Number: shown.Number, Doc: shown.Doc, Signature: shown.Signature})
}

// answerDocuments answers callDocuments. It shows documents only to a store that the placement names, because they have
// the hashes of keys.
func (a *Agent) answerDocuments(_ context.Context, from transport.Peer, request []byte) ([]byte, error) {
	if all := a.catalogue.Messages(string(request)); len(all) > 0 {
		var d fleet.Doc
		if err := json.Unmarshal(all[len(all)-1].Doc, &d); err != nil {
			return nil, err
		}
		if namesStore(d, from.ID) {
			shown := make([]signedDocument, len(all))
			for i, m := range all {
				shown[i] = signedDocument{m.Number, m.Doc, m.Signature}
			}
			return json.Marshal(shown)
		}
	}
	return nil, api.Errorf(api.NotFound, "this host has no document of namespace %q that names %s", request, from.ID)
}
