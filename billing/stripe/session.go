package stripe

import (
	"context"
	"fmt"

	stripego "github.com/stripe/stripe-go/v76"
)

// CheckoutSession returns the URL of a page of Stripe on which the customer saves a card. Stripe then leads to successURL,
// where {CHECKOUT_SESSION_ID} stands for the session's id, or else to cancelURL. Each call makes a session, which expires
// after 24 hours.
func (c *Client) CheckoutSession(ctx context.Context, customer, successURL, cancelURL string) (url string, err error) {
	session, err := c.api.CheckoutSessions.New(&stripego.CheckoutSessionParams{
		Params: params(ctx, ""), Mode: stripego.String("setup"), Customer: stripego.String(customer), Currency: stripego.String("usd"),
		SuccessURL: stripego.String(successURL), CancelURL: stripego.String(cancelURL),
	})
	if err != nil {
		return "", translate(err)
	}
	return session.URL, nil
}

// FinishCheckout makes the card of a completed checkout session the one that pays invoices, and returns the customer. A
// repeat changes nothing. It returns ErrMismatch if the session is not completed.
func (c *Client) FinishCheckout(ctx context.Context, session string) (customer string, err error) {
	get := &stripego.CheckoutSessionParams{Params: params(ctx, "")}
	get.AddExpand("setup_intent")
	s, err := c.api.CheckoutSessions.Get(session, get)
	if err != nil {
		return "", translate(err)
	}
	if s.Status != stripego.CheckoutSessionStatusComplete || s.SetupIntent == nil || s.SetupIntent.PaymentMethod == nil || s.Customer == nil {
		return "", mismatch("checkout session %s is %s and has saved no card", session, s.Status)
	}
	_, err = c.api.Customers.Update(s.Customer.ID, &stripego.CustomerParams{
		Params: params(ctx, ""), InvoiceSettings: &stripego.CustomerInvoiceSettingsParams{DefaultPaymentMethod: stripego.String(s.SetupIntent.PaymentMethod.ID)},
	})
	return s.Customer.ID, translate(err)
}

// PortalSession returns the URL of a page of Stripe with the customer's invoices and cards. It leads back to returnURL. It
// returns ErrRefused if Setup has not made the portal's configuration.
func (c *Client) PortalSession(ctx context.Context, customer, returnURL string) (url string, err error) {
	configuration, err := c.portal(ctx)
	if err != nil {
		return "", err
	}
	if configuration == nil {
		return "", fmt.Errorf("%w: it has no portal configuration of Corvo: run corvo-cloud admin stripe setup", ErrRefused)
	}
	session, err := c.api.BillingPortalSessions.New(&stripego.BillingPortalSessionParams{
		Params: params(ctx, ""), Customer: stripego.String(customer), ReturnURL: stripego.String(returnURL), Configuration: stripego.String(configuration.ID),
	})
	if err != nil {
		return "", translate(err)
	}
	return session.URL, nil
}

// portal returns the portal configuration that Setup has made, or nil. Of several it is the oldest, which a list has last.
func (c *Client) portal(ctx context.Context) (found *stripego.BillingPortalConfiguration, err error) {
	list := c.api.BillingPortalConfigurations.List(&stripego.BillingPortalConfigurationListParams{ListParams: listing(ctx), Active: stripego.Bool(true)})
	for list.Next() {
		if list.BillingPortalConfiguration().Metadata[metaSetup] == setupPortal {
			found = list.BillingPortalConfiguration()
		}
	}
	return found, translate(list.Err())
}
