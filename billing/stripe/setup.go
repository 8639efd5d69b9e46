package stripe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	stripego "github.com/stripe/stripe-go/v76"
)

// The values of metaSetup.
const (
	setupPortal  = "portal"
	setupWebhook = "webhook"
)

// Installation says how the objects in Stripe that all organisations share are to be.
type Installation struct {
	WebhookURL string // https URL of POST /cloud/v1/webhooks/stripe
	ReturnURL  string // to which the portal leads back by default
	Secret     string // of the webhook endpoint; "" = none is known
}

// Setup makes the meters, the portal configuration and the webhook endpoint, and returns a line for each change. A repeat
// changes only what differs. If Stripe has no endpoint for the secret, Setup makes one, calls keep with its secret, which keep
// makes durable, and then removes other endpoints of Setup at the same URL. A crash in between leaves an endpoint too many,
// which the next Setup removes. Setup returns ErrMismatch for a meter that counts otherwise, because meters cannot be changed.
func (c *Client) Setup(ctx context.Context, want Installation, keep func(secret string) error) (changes []string, err error) {
	for _, step := range []func(context.Context, Installation) ([]string, error){
		c.setupMeters,
		c.setupPortal,
		func(ctx context.Context, want Installation) ([]string, error) { return c.setupWebhook(ctx, want, keep) },
	} {
		done, err := step(ctx, want)
		changes = append(changes, done...)
		if err != nil {
			return changes, err
		}
	}
	return changes, nil
}

// wrong says how a meter differs from its unit in a way that cannot be changed, or "".
func (u unit) wrong(m *stripego.BillingMeter) string {
	switch {
	case m.EventTimeWindow != stripego.BillingMeterEventTimeWindowHour:
		return fmt.Sprintf("meter %s (%s) has the event time window %q and needs hour", u.event, m.ID, m.EventTimeWindow)
	case m.DefaultAggregation == nil || m.DefaultAggregation.Formula != stripego.BillingMeterDefaultAggregationFormulaSum:
		return fmt.Sprintf("meter %s (%s) does not count sums", u.event, m.ID)
	}
	return ""
}

func (c *Client) setupMeters(ctx context.Context, _ Installation) (changes []string, err error) {
	meters, err := c.meters(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		m := meters[u.event]
		if m == nil {
			_, err := c.api.BillingMeters.New(&stripego.BillingMeterParams{
				Params: params(ctx, "corvo-meter-"+u.event), DisplayName: stripego.String(u.name), EventName: stripego.String(u.event),
				EventTimeWindow:    stripego.String("hour"),
				DefaultAggregation: &stripego.BillingMeterDefaultAggregationParams{Formula: stripego.String("sum")},
				CustomerMapping:    &stripego.BillingMeterCustomerMappingParams{EventPayloadKey: stripego.String("stripe_customer_id"), Type: stripego.String("by_id")},
				ValueSettings:      &stripego.BillingMeterValueSettingsParams{EventPayloadKey: stripego.String("value")},
			})
			if err != nil {
				return changes, translate(err)
			}
			changes = append(changes, "created meter "+u.event)
			continue
		}
		if why := u.wrong(m); why != "" {
			return changes, mismatch("%s: deactivate it in Stripe if nothing else uses it", why)
		}
		if m.Status != stripego.BillingMeterStatusActive {
			if _, err := c.api.BillingMeters.Reactivate(m.ID, &stripego.BillingMeterReactivateParams{Params: params(ctx, "")}); err != nil {
				return changes, translate(err)
			}
			changes = append(changes, "reactivated meter "+u.event)
		}
	}
	return changes, nil
}

func (c *Client) setupPortal(ctx context.Context, want Installation) (changes []string, err error) {
	has, err := c.portal(ctx)
	if err != nil || has != nil && !portalWrong(has, want) {
		return nil, err
	}
	on, off := stripego.Bool(true), stripego.Bool(false)
	p := &stripego.BillingPortalConfigurationParams{
		Params:          params(ctx, ""),
		BusinessProfile: &stripego.BillingPortalConfigurationBusinessProfileParams{Headline: stripego.String("Invoices and payment")},
		Features: &stripego.BillingPortalConfigurationFeaturesParams{
			InvoiceHistory:      &stripego.BillingPortalConfigurationFeaturesInvoiceHistoryParams{Enabled: on},
			PaymentMethodUpdate: &stripego.BillingPortalConfigurationFeaturesPaymentMethodUpdateParams{Enabled: on},
			// Name, email and address come from the billing profile, so that Corvo's side wins.
			CustomerUpdate:     &stripego.BillingPortalConfigurationFeaturesCustomerUpdateParams{Enabled: off},
			SubscriptionCancel: &stripego.BillingPortalConfigurationFeaturesSubscriptionCancelParams{Enabled: off},
		},
	}
	if want.ReturnURL != "" {
		p.DefaultReturnURL = stripego.String(want.ReturnURL)
	}
	p.AddMetadata(metaSetup, setupPortal)
	if has != nil {
		_, err := c.api.BillingPortalConfigurations.Update(has.ID, p)
		return []string{"changed the portal configuration"}, translate(err)
	}
	p.SetIdempotencyKey("corvo-portal-" + fingerprint(want.ReturnURL))
	if _, err := c.api.BillingPortalConfigurations.New(p); err != nil {
		return nil, translate(err)
	}
	return []string{"created the portal configuration"}, nil
}

// portalWrong reports whether a portal configuration differs from the one that Setup makes.
func portalWrong(has *stripego.BillingPortalConfiguration, want Installation) bool {
	f := has.Features
	return has.DefaultReturnURL != want.ReturnURL || f == nil || f.InvoiceHistory == nil || !f.InvoiceHistory.Enabled ||
		f.PaymentMethodUpdate == nil || !f.PaymentMethodUpdate.Enabled || f.CustomerUpdate != nil && f.CustomerUpdate.Enabled
}

// endpoints returns the webhook endpoints that Setup has made at the URL.
func (c *Client) endpoints(ctx context.Context, url string) (all []*stripego.WebhookEndpoint, err error) {
	list := c.api.WebhookEndpoints.List(&stripego.WebhookEndpointListParams{ListParams: listing(ctx)})
	for list.Next() {
		if e := list.WebhookEndpoint(); e.Metadata[metaSetup] == setupWebhook && e.URL == url {
			all = append(all, e)
		}
	}
	return all, translate(list.Err())
}

// fingerprint names a text without showing it.
func fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

func (c *Client) setupWebhook(ctx context.Context, want Installation, keep func(secret string) error) (changes []string, err error) {
	all, err := c.endpoints(ctx, want.WebhookURL)
	if err != nil {
		return nil, err
	}
	ours := ""
	for _, e := range all {
		if want.Secret != "" && e.Metadata[metaSecret] == fingerprint(want.Secret) && e.APIVersion == APIVersion {
			ours = e.ID
			if !endpointWrong(e) {
				continue
			}
			if _, err := c.api.WebhookEndpoints.Update(e.ID, &stripego.WebhookEndpointParams{
				Params: params(ctx, ""), EnabledEvents: stripego.StringSlice(EventTypes), Disabled: stripego.Bool(false),
			}); err != nil {
				return changes, translate(err)
			}
			changes = append(changes, "changed the webhook endpoint")
		}
	}
	if ours == "" {
		if ours, err = c.createEndpoint(ctx, want.WebhookURL, keep); err != nil {
			return changes, err
		}
		changes = append(changes, "created the webhook endpoint")
	}
	for _, e := range all {
		if e.ID == ours {
			continue
		}
		if _, err := c.api.WebhookEndpoints.Del(e.ID, &stripego.WebhookEndpointParams{Params: params(ctx, "")}); err != nil {
			return changes, translate(err)
		}
		changes = append(changes, "removed an earlier webhook endpoint")
	}
	return changes, nil
}

// createEndpoint makes a webhook endpoint, hands its secret to keep and only then marks the endpoint with the fingerprint of
// the secret. Stripe shows the secret only once: an endpoint without a mark has a secret that nobody may know.
func (c *Client) createEndpoint(ctx context.Context, url string, keep func(secret string) error) (id string, err error) {
	create := &stripego.WebhookEndpointParams{
		Params: params(ctx, ""), URL: stripego.String(url), EnabledEvents: stripego.StringSlice(EventTypes),
		APIVersion: stripego.String(APIVersion), Description: stripego.String("Corvo cloud"),
	}
	create.AddMetadata(metaSetup, setupWebhook)
	made, err := c.api.WebhookEndpoints.New(create)
	if err != nil {
		return "", translate(err)
	}
	if err := keep(made.Secret); err != nil {
		return "", fmt.Errorf("the webhook secret cannot be kept: %w", err)
	}
	mark := &stripego.WebhookEndpointParams{Params: params(ctx, "")}
	mark.AddMetadata(metaSecret, fingerprint(made.Secret))
	_, err = c.api.WebhookEndpoints.Update(made.ID, mark)
	return made.ID, translate(err)
}

// endpointWrong reports whether an endpoint is disabled or lacks events.
func endpointWrong(e *stripego.WebhookEndpoint) bool {
	return e.Status != "enabled" || slices.ContainsFunc(EventTypes, func(t string) bool {
		return !slices.Contains(e.EnabledEvents, t) && !slices.Contains(e.EnabledEvents, "*")
	})
}

// Check compares Stripe with the installation and returns a line for each fault. It changes nothing.
func (c *Client) Check(ctx context.Context, want Installation) (faults []string, err error) {
	meters, err := c.meters(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		switch m := meters[u.event]; {
		case m == nil:
			faults = append(faults, "meter "+u.event+" is missing")
		case u.wrong(m) != "":
			faults = append(faults, u.wrong(m))
		case m.Status != stripego.BillingMeterStatusActive:
			faults = append(faults, "meter "+u.event+" is not active")
		}
	}
	portal, err := c.portal(ctx)
	if err != nil {
		return nil, err
	}
	if portal == nil || portalWrong(portal, want) {
		faults = append(faults, "the portal configuration is missing or differs")
	}
	all, err := c.endpoints(ctx, want.WebhookURL)
	if err != nil {
		return nil, err
	}
	good := slices.IndexFunc(all, func(e *stripego.WebhookEndpoint) bool {
		return !endpointWrong(e) && e.APIVersion == APIVersion && want.Secret != "" && e.Metadata[metaSecret] == fingerprint(want.Secret)
	})
	switch {
	case len(all) == 0:
		faults = append(faults, "the webhook endpoint "+want.WebhookURL+" is missing")
	case good < 0:
		faults = append(faults, "the webhook endpoint "+want.WebhookURL+" has another secret or API version, is disabled, or lacks events")
	case len(all) > 1:
		faults = append(faults, fmt.Sprintf("%d webhook endpoints have the URL %s, and one is enough", len(all), want.WebhookURL))
	}
	return faults, nil
}
