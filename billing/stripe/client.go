// Package stripe collects Corvo's invoices by Stripe and sends quantities of meters there (ADR 0094). It owns the calls to
// Stripe, their repetition after crashes and the verification of webhooks. It rates nothing, stores nothing and knows neither
// the control plane's state nor its ops. It is the only package that imports the library of Stripe. Of this module it imports
// billing and billing/money.
package stripe

import (
	"context"
	"net/http"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/client"
)

// APIVersion is the version of Stripe's API that requests and webhooks have.
const APIVersion = stripego.APIVersion

// DefaultURL is the URL of Stripe.
const DefaultURL = stripego.APIURL

// The keys of our metadata on objects of Stripe. They are permanent, because creates are repeated by them.
const (
	metaOrg     = "corvo_org"     // id of the organisation
	metaInvoice = "corvo_invoice" // number of our invoice
	metaItem    = "corvo_item"    // item of an invoice, such as the name of a meter
	metaSetup   = "corvo_setup"   // objects that Setup makes
	metaSecret  = "corvo_secret"  // fingerprint of the secret of a webhook endpoint
)

// requestTimeout limits one request to Stripe, because an answer that takes longer is lost like one of a broken connection.
const requestTimeout = 30 * time.Second

// Config sets a Client up.
type Config struct {
	Key  string           // secret key
	URL  string           // "" = DefaultURL
	HTTP *http.Client     // nil = one with requestTimeout
	Now  func() time.Time // nil = time.Now
}

// Client calls Stripe. It keeps no state, so that any process of the control plane can go on where another one stopped. It
// never repeats a request by itself: the caller repeats the method, after the time in the error. It is safe for concurrent
// use, except that a customer and meter must have one call of SendMeterEvent at a time.
type Client struct {
	api *client.API
	now func() time.Time
}

// New makes a Client. It calls nothing.
func New(cfg Config) *Client {
	if cfg.URL == "" {
		cfg.URL = DefaultURL
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Timeout: requestTimeout}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	backend := stripego.GetBackendWithConfig(stripego.APIBackend, &stripego.BackendConfig{
		URL:               stripego.String(cfg.URL),
		HTTPClient:        cfg.HTTP,
		MaxNetworkRetries: stripego.Int64(0), // the library sleeps between its retries
		EnableTelemetry:   stripego.Bool(false),
		LeveledLogger:     &stripego.LeveledLogger{Level: stripego.LevelNull}, // the caller logs our errors
	})
	return &Client{client.New(cfg.Key, &stripego.Backends{API: backend, Connect: backend, Uploads: backend}), cfg.Now}
}

// params returns the parameters that all requests have. The key is the idempotency key of a create and "" otherwise.
func params(ctx context.Context, key string) stripego.Params {
	p := stripego.Params{Context: ctx}
	if key != "" {
		p.SetIdempotencyKey(key)
	}
	return p
}

// listing returns the parameters that all lists have.
func listing(ctx context.Context) stripego.ListParams {
	return stripego.ListParams{Context: ctx, Limit: stripego.Int64(100)}
}
