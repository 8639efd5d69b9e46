package server

import (
	"net/http"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
)

// webhook enqueues a job for a sender that does not know the API. The request body is the payload, and the
// query has the options.
func (s *Server) webhook(w http.ResponseWriter, r *http.Request) error {
	q, body, err := s.beginRaw(r)
	if err != nil {
		return err
	}
	var f convert.Faults
	b := convert.FromWebhook(&f, r.PathValue("queue"), r.URL.RawQuery, body)
	made, err := s.enqueueJob(w, r, &q, &f, b)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, statusOf(made), made.Results[0])
}

// beginRaw begins a request like Server.begin, but returns the body undecoded and prepares no audit record.
func (s *Server) beginRaw(r *http.Request) (request, []byte, error) {
	who := serve.Principal(r.Context())
	shards, err := router.Open(s.cfg.Host, who.Namespace)
	if err != nil {
		return request{}, nil, err
	}
	body, err := serve.ReadBody(r)
	if err != nil {
		return request{}, nil, err
	}
	key, err := idempotency(r, body)
	return request{who: who, shards: shards, meta: &op.Meta{Principal: principalOf(who), Idempotency: key}}, body, err
}

// webhookQuery documents the parameters of a webhook.
func webhookQuery() []serve.Param {
	params := make([]serve.Param, len(convert.WebhookParams))
	for i, p := range convert.WebhookParams {
		params[i] = serve.Param{Name: p.Name, Doc: p.Doc}
	}
	return params
}
