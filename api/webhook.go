package api

import "encoding/json"

// WebhookRequest declares a webhook. An absent field gets its default, also when the request replaces a
// webhook; only an absent secret stays unchanged.
type WebhookRequest struct {
	URL        string   `json:"url"`
	Secret     string   `json:"secret,omitempty"`      // signs the requests; 16 to 256 bytes, required for a new webhook; no response contains it
	Events     []string `json:"events,omitempty"`      // event types, "*" for all; default: the events of alerts and webhooks
	Queues     []string `json:"queues,omitempty"`      // at most 64 globs of the queues whose jobs it covers; default all
	Enabled    *bool    `json:"enabled,omitempty"`     // default true
	RetryLimit *int     `json:"retry_limit,omitempty"` // 0 to 20, default 3
	// After a change of the secret, requests are also signed with the old secret for the time SecretOverlap;
	// default 24h, at most 720h.
	SecretOverlap Duration `json:"secret_overlap,omitempty"`
}

// Webhook is the response of GET /webhooks/{id}. Its JSON always has every field. To a caller with a queue
// scope who may not change the webhook, the delivery figures, from Waiting to LastDeliveryAt, are 0 or null.
type Webhook struct {
	ID         string   `json:"id"`
	URL        string   `json:"url"` // only scheme, host and port if the caller may not change the webhook
	Events     []string `json:"events"`
	Queues     []string `json:"queues"`
	Enabled    bool     `json:"enabled"` // the server sets it to false if it gives up 10 deliveries in a row over at least an hour
	RetryLimit int      `json:"retry_limit"`
	// After a change of the secret, requests are also signed with the old secret for the time SecretOverlap,
	// which ends at OldSecretUntil; null = no old secret.
	SecretOverlap  Duration `json:"secret_overlap"`
	OldSecretUntil *Time    `json:"old_secret_until"`
	Waiting        int64    `json:"waiting"`          // pending deliveries
	Dropped        int64    `json:"dropped"`          // events that were not sent, because too many deliveries were pending
	FailingSince   *Time    `json:"failing_since"`    // time of the first failed delivery since the last success; null = none
	LastStatusCode *int     `json:"last_status_code"` // of the last attempt; null = no response
	LastError      *string  `json:"last_error"`       // of the last attempt; null = delivered
	LastDeliveryAt *Time    `json:"last_delivery_at"` // of the last attempt; null = none
	CreatedAt      Time     `json:"created_at"`

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}

// The states of a delivery.
const (
	DeliveryPending   = "pending"
	DeliveryDelivered = "delivered"
	DeliveryFailed    = "failed" // no further attempt
)

// Delivery is one event for a webhook.
type Delivery struct {
	ID             string          `json:"id"`
	Event          string          `json:"event"`
	Body           json.RawMessage `json:"body"`
	State          string          `json:"state"` // pending, delivered or failed
	Attempts       int             `json:"attempts"`
	LastStatusCode *int            `json:"last_status_code"`
	LastError      *string         `json:"last_error"`
	LastAttemptAt  *Time           `json:"last_attempt_at"`
	NextAttemptAt  *Time           `json:"next_attempt_at"`
	CreatedAt      Time            `json:"created_at"`
}

// WebhookTest is the response of POST /webhooks/{id}/test.
type WebhookTest struct {
	Status     string `json:"status"` // queued
	DeliveryID string `json:"delivery_id"`
}

// TestEvent is the body of a test delivery.
type TestEvent struct {
	Event   string `json:"event"` // test
	Webhook string `json:"webhook"`
	At      Time   `json:"at"`
}
