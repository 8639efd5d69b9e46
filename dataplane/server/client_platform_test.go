package server_test

import (
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// The Go client makes the requests of a platform engineer. The tests of the Terraform provider show that it
// can declare every resource.
func TestClientPlatform(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	c, ctx := n.client(n.admin), t.Context()
	strong := client.Read{Strong: true}

	hook, err := c.CreateWebhook(ctx, api.WebhookRequest{URL: "https://alerts.example.com/", Secret: "sixteen bytes or more"})
	if err != nil || hook.Version != 1 {
		t.Fatalf("the webhook is %+v, %v", hook, err)
	}
	test, err := c.TestWebhook(ctx, hook.ID)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := c.Deliveries(ctx, hook.ID, strong)
	if err != nil || !slices.ContainsFunc(sent, func(d api.Delivery) bool { return d.ID == test.DeliveryID }) {
		t.Errorf("the deliveries are %+v, %v; want %s among them", sent, err, test.DeliveryID)
	}

	settings, err := c.PutSettings(ctx, api.Settings{UnknownModel: api.UnknownModelHold})
	if err != nil || settings.UnknownModel != api.UnknownModelHold {
		t.Errorf("the settings are %+v, %v", settings, err)
	}
	if now, err := c.Settings(ctx, strong); err != nil || now != settings {
		t.Errorf("the settings are %+v, %v; want %+v", now, err, settings)
	}

	cost := api.ReportedUSD(1_500_000_000)
	if err := c.Ack(ctx, n.one(c, "q").JobID, api.AckRequest{Usage: &api.ReportedUsage{Model: "m", CostUSD: &cost}}); err != nil {
		t.Fatal(err)
	}
	sums, err := c.UsageSummary(ctx, client.SummaryQuery{Period: "1h", GroupBy: "queue"}, strong)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the total cost", sums.Totals.CostUSD.Nano(), api.USD(cost))
	if len(sums.Groups) != 1 || sums.Groups[0].Key != "q" {
		t.Errorf("the groups are %+v", sums.Groups)
	}
}
