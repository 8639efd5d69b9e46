package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

var webhooks = resource[api.WebhookRequest, api.Webhook]{
	use: "webhooks", short: "Manage webhooks, which receive events", one: "webhook", many: "webhooks", arg: "WEBHOOK",
	list: (*client.Client).Webhooks, get: (*client.Client).Webhook, create: (*client.Client).CreateWebhook,
	put: (*client.Client).PutWebhook, remove: (*client.Client).DeleteWebhook,
	version: func(h *api.Webhook) int64 { return h.Version },
	prefix:  "hook_", makes: "URL",
	begin: func(req *api.WebhookRequest, arg string) error {
		req.URL = arg
		return nil
	},
	flags: []edit[api.WebhookRequest]{
		set("secret-file", "file with the secret that signs deliveries, - for stdin", secret, func(r *api.WebhookRequest) *string { return &r.Secret }),
		set("events", "events to send, such as alert_fired,alert_resolved, or * for all (default: events of alerts and webhooks)", names, func(r *api.WebhookRequest) *[]string { return &r.Events }),
		set("queues", "patterns of the queues to send events of, such as mail-* (default all)", names, func(r *api.WebhookRequest) *[]string { return &r.Queues }),
		set("secret-overlap", "time during which deliveries carry a second signature with the old secret (default 24h)", span, func(r *api.WebhookRequest) *api.Duration { return &r.SecretOverlap }),
		option("enabled", "whether events are sent (default true)", yesNo, func(r *api.WebhookRequest) **bool { return &r.Enabled }),
		option("retry-limit", "number of retries of a failed delivery (default 3)", whole, func(r *api.WebhookRequest) **int { return &r.RetryLimit }),
	},
	renames: []edit[api.WebhookRequest]{
		set("url", "URL that receives the events", words, func(r *api.WebhookRequest) *string { return &r.URL }),
	},
	columns: []column[api.Webhook]{
		{"ID", func(h api.Webhook) string { return h.ID }},
		{"URL", func(h api.Webhook) string { return h.URL }},
		{"EVENTS", func(h api.Webhook) string { return joinOr(h.Events, "alerts") }},
		{"ENABLED", func(h api.Webhook) string { return yes(h.Enabled) }},
		{"LAST DELIVERY", func(h api.Webhook) string { return maybe(h.LastDeliveryAt, clock) }},
		{"ANSWER", func(h api.Webhook) string { return maybe(h.LastStatusCode, count) }},
		{"ERROR", func(h api.Webhook) string { return maybe(h.LastError, texts) }},
	},
	details: []column[api.Webhook]{
		{"QUEUES", func(h api.Webhook) string { return joinOr(h.Queues, "all") }},
		{"WAITING", func(h api.Webhook) string { return count(h.Waiting) }},
		{"DROPPED", func(h api.Webhook) string { return count(h.Dropped) }},
		{"FAILING SINCE", func(h api.Webhook) string { return maybe(h.FailingSince, clock) }},
		{"OLD SECRET UNTIL", func(h api.Webhook) string { return maybe(h.OldSecretUntil, clock) }},
		{"SECRET OVERLAP", func(h api.Webhook) string { return string(h.SecretOverlap) }},
		{"RETRY LIMIT", func(h api.Webhook) string { return count(h.RetryLimit) }},
		{"CREATED", func(h api.Webhook) string { return clock(h.CreatedAt) }},
	},
}

// joinOr joins names, or returns none if there are no names.
func joinOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

func newWebhooks() *cobra.Command { return webhooks.command(newWebhookTest, newDeliveries) }

func newWebhookTest(r *remote) *cobra.Command {
	return on(&webhooks, r, "test", "Send a test event to a webhook", func(ctx context.Context, c *client.Client, id string) (api.WebhookTest, error) {
		return c.TestWebhook(ctx, id)
	}, func(w io.Writer, t api.WebhookTest) { fmt.Fprintln(w, t.DeliveryID) })
}

func newDeliveries(r *remote) *cobra.Command {
	return on(&webhooks, r, "deliveries", "List recent and pending deliveries of a webhook, newest first", func(ctx context.Context, c *client.Client, id string) ([]api.Delivery, error) {
		return c.Deliveries(ctx, id, client.Read{})
	}, showDeliveries)
}

func showDeliveries(w io.Writer, all []api.Delivery) {
	showList(w, all, []column[api.Delivery]{
		{"DELIVERY", func(d api.Delivery) string { return d.ID }},
		{"EVENT", func(d api.Delivery) string { return d.Event }},
		{"STATE", func(d api.Delivery) string { return d.State }},
		{"ATTEMPTS", func(d api.Delivery) string { return count(d.Attempts) }},
		{"ANSWER", func(d api.Delivery) string { return maybe(d.LastStatusCode, count) }},
		{"CREATED", func(d api.Delivery) string { return clock(d.CreatedAt) }},
		{"NEXT ATTEMPT", func(d api.Delivery) string { return maybe(d.NextAttemptAt, clock) }},
		{"ERROR", func(d api.Delivery) string { return maybe(d.LastError, texts) }},
	})
}
