package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/sinks"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// deliveriesShown is the number of deliveries in the list of a webhook.
const deliveriesShown = 100

// webhooks declares the resource for webhooks that receive events. Incoming webhooks, which create jobs, use
// POST /webhooks/{queue}.
var webhooks = resource[api.WebhookRequest, api.Webhook]{
	kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK,
	path: "/webhooks", item: "/{id}", one: "webhook", many: "webhooks",
	read: tenancy.QueueRead, write: tenancy.KeyManage,
	prefix: "hook_", named: inPath,
	from: func(f *convert.Faults, body *api.WebhookRequest, _ *state.Resource, _ int64) *op.PutResource {
		return convert.FromHook(f, body)
	},
	to: func(home *cell.Cell, r *state.Resource) (api.Webhook, error) {
		a, err := home.State().Attempted([16]byte(r.Id))
		return convert.ToHook(r, a, home.NowNs()), err
	},
	queue: func(*state.Resource) string { return "" },
	conceal: func(q *request, h *api.Webhook) {
		convert.ConcealHook(h)
		if len(q.who.QueueScope) > 0 {
			convert.ConcealDeliveries(h)
		}
	},
}

// webhookRoutes returns the routes that every resource has and those that only webhooks have.
func (s *Server) webhookRoutes() []serve.Route {
	return append(webhooks.routes(s),
		serve.Route{Method: "POST", Path: "/api/v1/webhooks/{id}/test", Permission: tenancy.KeyManage, Handler: s.testWebhook,
			Summary: "Send a test event to a webhook", Response: api.WebhookTest{}, Status: http.StatusAccepted},
		serve.Route{Method: "GET", Path: "/api/v1/webhooks/{id}/deliveries", Permission: tenancy.QueueRead, Handler: s.searching(s.listDeliveries), Query: read,
			Summary: "List the latest 100 deliveries of a webhook, newest first", Response: []api.Delivery{}},
	)
}

// testWebhook queues a test event for the webhook in the path, even if that webhook selects other events.
func (s *Server) testWebhook(w http.ResponseWriter, r *http.Request) error {
	q, hook, err := webhooks.mine(s, r)
	if err != nil {
		return err
	}
	home := q.shards.Home()
	body, err := json.Marshal(api.TestEvent{Event: op.EventTest, Webhook: hook.Name, At: api.TimeOf(time.Unix(0, home.NowNs()))})
	if err != nil {
		return err
	}
	id := home.NewID("")
	o := &op.QueueDelivery{Meta: q.meta, Webhook: hook.Name, Event: op.EventTest, Body: body}
	o.Meta.Ids = [][]byte{id[:]}
	result, err := commit[*op.QueueDeliveryResult](s, w, r, &q, home, o)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusAccepted, api.WebhookTest{Status: "queued", DeliveryID: sinks.DeliveryIDText(job.ID(result.Id))})
}

// listDeliveries lists the newest past and pending deliveries of a webhook. A delivery may concern any queue,
// so callers with a queue scope are refused.
func (s *Server) listDeliveries(w http.ResponseWriter, r *http.Request) error {
	q, home, err := s.atHome(r)
	if err != nil {
		return err
	}
	hook, err := webhooks.find(&q, r)
	if err != nil {
		return err
	}
	if err := webhooks.everywhere(&q); err != nil {
		return err
	}
	snapshot := home.State().Snapshot()
	defer snapshot.Close()
	newest, err := snapshot.DeliveriesTo(hook.Name, deliveriesShown)
	if err != nil {
		return err
	}
	all := make([]api.Delivery, len(newest))
	for i, d := range newest {
		all[i] = convert.ToDelivery(d)
	}
	return serve.WriteJSON(w, http.StatusOK, all)
}
