package api

import "encoding/json"

// WebhookRequest describes a webhook: what is absent gets its default, also where it
// replaces one, but for the secret, which stays.
type WebhookRequest struct {
	URL        string   `json:"url"`
	Secret     string   `json:"secret,omitempty"` // what is sent is signed with it; it is never shown
	Events     []string `json:"events,omitempty"` // of which it is told, "*" for all; default those of alerts and webhooks
	Queues     []string `json:"queues,omitempty"` // globs: of whose jobs it is told; default all
	Enabled    *bool    `json:"enabled,omitempty"`
	RetryLimit *int     `json:"retry_limit,omitempty"` // default 3
	// SecretOverlap is how long what is sent is signed with the old secret, too, when there
	// is a new one; default 24h.
	SecretOverlap Duration `json:"secret_overlap,omitempty"`
}

// Webhook is a webhook as GET /webhooks/{id} answers it. Every field is always present
// in its JSON.
type Webhook struct {
	ID         string   `json:"id"`
	URL        string   `json:"url"`
	Events     []string `json:"events"`
	Queues     []string `json:"queues"`
	Enabled    bool     `json:"enabled"` // false, too, when it could not be reached for long
	RetryLimit int      `json:"retry_limit"`
	// SecretOverlap is how long what is sent is signed with two secrets when there is a new
	// one; until OldSecretUntil it is.
	SecretOverlap  Duration `json:"secret_overlap"`
	OldSecretUntil *Time    `json:"old_secret_until"`
	Waiting        int64    `json:"waiting"`          // deliveries that are not over
	Dropped        int64    `json:"dropped"`          // events it was not told of, because too many deliveries waited
	FailingSince   *Time    `json:"failing_since"`    // when the first delivery of those in a row was given up; null: the last was not
	LastStatusCode *int     `json:"last_status_code"` // of the last attempt; null: there was no answer
	LastError      *string  `json:"last_error"`       // of the last attempt; null: it was delivered
	LastDeliveryAt *Time    `json:"last_delivery_at"` // of the last attempt; null: there was none
	CreatedAt      Time     `json:"created_at"`

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}

// The states of a delivery.
const (
	DeliveryPending   = "pending"
	DeliveryDelivered = "delivered"
	DeliveryFailed    = "failed" // given up
)

// Delivery is an event that a webhook was sent, or is to be sent.
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

// WebhookTest answers POST /webhooks/{id}/test.
type WebhookTest struct {
	Status     string `json:"status"` // queued
	DeliveryID string `json:"delivery_id"`
}

// TestEvent is what a webhook is sent to try it.
type TestEvent struct {
	Event   string `json:"event"` // test
	Webhook string `json:"webhook"`
	At      Time   `json:"at"`
}
