package stripe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/webhook"
)

// The bounds of webhooks.
const (
	// MaxWebhookBytes is the largest body of a delivery. An invoice of MaxItems items has less than a third of it.
	MaxWebhookBytes = 1 << 20
	// WebhookTolerance is how far the time of a signature may differ from ours, either way.
	WebhookTolerance = 5 * time.Minute
	// MaxSecrets is the number of secrets that are valid during a rotation.
	MaxSecrets = 2
)

// ErrForged means that a delivery is not signed by one of the secrets, or that its signature is too old. Answer 400.
var ErrForged = errors.New("the delivery is not signed with the webhook secret")

// ErrVersion means that a signed delivery has another API version, because somebody made the endpoint by hand.
var ErrVersion = errors.New("the delivery has another API version than " + APIVersion + ": run corvo-cloud admin stripe setup and remove other endpoints in Stripe")

// Event is a verified delivery. It says what to fetch, and nothing else of it is used, because deliveries come late, twice
// and in any order.
type Event struct {
	ID      string // the same in each repeat
	Type    string // such as "invoice.paid"
	Object  string // id of the object that changed
	Kind    string // of that object, such as "invoice"
	Created time.Time
	Live    bool // whether it is of the live mode of Stripe
}

// EventTypes are the types of events that Setup subscribes to. Handlers ignore others.
var EventTypes = []string{
	"checkout.session.completed", "customer.updated", "invoice.finalized", "invoice.marked_uncollectible", "invoice.paid",
	"invoice.payment_failed", "invoice.voided", "charge.dispute.created", "charge.dispute.closed", "charge.refunded",
}

// VerifyWebhook verifies a delivery by its raw body and its header Stripe-Signature, with any of up to MaxSecrets secrets. It
// returns ErrForged or ErrVersion. A signed body that is not an event is ErrInvalid, which belongs into the poison list.
func VerifyWebhook(body []byte, signature string, secrets []string, now time.Time) (Event, error) {
	if len(body) > MaxWebhookBytes {
		return Event{}, fmt.Errorf("%w: its body has more than %d bytes", ErrForged, MaxWebhookBytes)
	}
	if len(secrets) > MaxSecrets {
		return Event{}, invalid("%d webhook secrets are set, and the limit is %d", len(secrets), MaxSecrets)
	}
	at, err := signedAt(signature)
	if err != nil {
		return Event{}, err
	}
	if off := now.Sub(at); off > WebhookTolerance || off < -WebhookTolerance {
		return Event{}, fmt.Errorf("%w: its signature is %v old, and the limit is %v", ErrForged, off, WebhookTolerance)
	}
	if !signedByAny(body, signature, secrets) {
		return Event{}, ErrForged
	}
	var e stripego.Event
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, invalid("the signed delivery is not an event: %v", err)
	}
	if e.APIVersion != APIVersion {
		return Event{}, fmt.Errorf("%w: event %q has version %q", ErrVersion, e.ID, e.APIVersion)
	}
	if e.ID == "" || e.Type == "" || e.Data == nil {
		return Event{}, invalid("the signed delivery has no id, type or object")
	}
	object, _ := e.Data.Object["id"].(string)
	kind, _ := e.Data.Object["object"].(string)
	return Event{ID: e.ID, Type: string(e.Type), Object: object, Kind: kind, Created: time.Unix(e.Created, 0).UTC(), Live: e.Livemode}, nil
}

// signedByAny reports whether one of the secrets signed the body. The library's own check of the age uses the real clock, so
// that the caller checks it.
func signedByAny(body []byte, signature string, secrets []string) (signed bool) {
	for _, secret := range secrets {
		// An empty secret would accept a signature that anybody can make.
		if secret != "" && webhook.ValidatePayloadIgnoringTolerance(body, signature, secret) == nil {
			signed = true
		}
	}
	return signed
}

// signedAt returns the time in a signature header.
func signedAt(signature string) (time.Time, error) {
	for part := range strings.SplitSeq(signature, ",") {
		if text, ok := strings.CutPrefix(part, "t="); ok {
			seconds, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				break
			}
			return time.Unix(seconds, 0), nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: its header Stripe-Signature has no time", ErrForged)
}
