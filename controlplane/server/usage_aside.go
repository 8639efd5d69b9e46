package server

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// frameRange holds the source and the numbers of a frame. takeAside needs them even if it cannot decode the
// rest.
type frameRange struct {
	billing.Source
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// takeAside stores a refused frame of a namespace that is being deleted, because the host deletes the data
// only after its last usage was answered. A proxy may have refused the frame before, so takeAside first tries
// to apply it: this control plane alone decides on the refusal. If the refusal may pass, the server has
// failed, or rows are missing before the frame, takeAside stores nothing and returns the error to the host.
func (s *Server) takeAside(w http.ResponseWriter, r *http.Request, m member) error {
	var frame json.RawMessage
	if err := serve.DecodeJSON(r, &frame); err != nil {
		return err
	}
	var within frameRange
	if err := serve.Decode(r, frame, &within); err != nil {
		return err
	}
	if m.host.Kind == keyring.Gateway {
		return api.Errorf(api.Forbidden, "a gateway deletes no namespace: it sends its usage to %s", wire.UsagePath)
	}
	if err := s.maySend(r, m, within.Source); err != nil {
		return err
	}
	last, refusal := s.applyRaw(r, m, frame)
	if refusal != nil {
		code := api.CodeOf(refusal)
		if code.Status() >= http.StatusInternalServerError || code.Retryable() || code == api.StateConflict {
			return refusal
		}
		if err := s.store.AsideRoom(r.Context(), within.Source, within.To, len(frame)); err != nil {
			return err
		}
		kept, err := propose[*store.SetAsideUsageResult](r.Context(), s, &store.SetAsideUsage{
			Meta:      &store.Meta{Principal: m.host.ID},
			Namespace: within.Namespace, Stream: within.Stream, Incarnation: within.Incarnation, From: within.From, To: within.To,
			Code: string(code), Reason: text.Cut(refusal.Error(), store.MaxAsideReason-len("...")), Frame: frame,
		})
		if err != nil {
			return err
		}
		s.cfg.Logger.Error("refused usage of a namespace that is being deleted was set aside: it is not charged until an operator decides",
			"namespace", within.Namespace, "stream", within.Stream, "first_row", within.From, "last_row", within.To, "host", m.host.ID, "error", refusal)
		last = kept.Last
	}
	return serve.WriteJSON(w, http.StatusOK, wire.UsageAnswer{Last: last})
}

// applyRaw decodes a frame and applies it.
func (s *Server) applyRaw(r *http.Request, m member, raw json.RawMessage) (uint64, error) {
	var frame billing.Frame
	if err := serve.Decode(r, raw, &frame); err != nil {
		return 0, err
	}
	return s.applyUsage(r, m, frame)
}

// listAside lists the usage that was set aside, oldest first.
func (s *Server) listAside(w http.ResponseWriter, r *http.Request) error {
	const list = "usage set aside"
	limit, text, err := pageOf(r, list)
	if err != nil {
		return err
	}
	var after int64
	if text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			return api.Errorf(api.ValidationError, "cursor: it does not belong to this list")
		}
	}
	found, err := s.store.AsideUsage(r.Context(), after, limit+1)
	if err != nil {
		return err
	}
	position := func(a store.AsideUsage) string { return strconv.FormatInt(a.Seq, 10) }
	return writePage(w, list, limit, found, position, toAside)
}

// getAside writes one frame that was set aside.
func (s *Server) getAside(w http.ResponseWriter, r *http.Request) error {
	seq, err := asideSeq(r)
	if err != nil {
		return err
	}
	found, frame, err := s.store.AsideFrame(r.Context(), seq)
	if err != nil {
		return err
	}
	out := toAside(found)
	out.Frame = frame
	return serve.WriteJSON(w, http.StatusOK, out)
}

// removeAside removes one frame that was set aside.
func (s *Server) removeAside(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	seq, err := asideSeq(r)
	if err != nil {
		return err
	}
	if _, err := propose[any](r.Context(), s, &store.RemoveAsideUsage{Meta: q.meta, Seq: seq}); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}

// asideSeq reads the number of a frame from the path.
func asideSeq(r *http.Request) (int64, error) {
	seq, err := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	if err != nil || seq <= 0 {
		return 0, api.Errorf(api.NotFound, "no usage is set aside under number %s", text.Quote(r.PathValue("seq")))
	}
	return seq, nil
}

func toAside(a store.AsideUsage) api.AsideUsage {
	return api.AsideUsage{
		Seq: a.Seq, At: timeOf(a.AtNs), Org: string(a.Org), Namespace: a.Source.Namespace, Stream: a.Source.Stream, Incarnation: a.Source.Incarnation,
		From: a.From, To: a.To, Code: a.Code, Reason: a.Reason, Bytes: a.Bytes,
	}
}
