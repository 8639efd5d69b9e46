package stripe

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
)

// The kinds of errors. Every error of a Client wraps one of them.
var (
	// ErrUnavailable means that Stripe gave no answer, or asked to wait. The request may have had its effect. Repeat the
	// method later.
	ErrUnavailable = errors.New("no answer from Stripe: repeat later")
	// ErrRefused means that Stripe refused the request. A repeat is refused too, until somebody changes something.
	ErrRefused = errors.New("refused by Stripe")
	// ErrKey means that Stripe does not accept the secret key.
	ErrKey = errors.New("the secret key is not accepted by Stripe: set the key of the account, with write permission")
	// ErrDeclined means that the customer's bank declined the payment.
	ErrDeclined = errors.New("the payment was declined")
	// ErrMismatch means that an object in Stripe differs from our record. Nothing was changed. An operator must decide.
	ErrMismatch = errors.New("the record in Stripe differs from ours")
	// ErrInvalid means that an argument breaks a rule of this package. Nothing was sent.
	ErrInvalid = errors.New("not sent to Stripe")
	// ErrUnsendable means that a meter event can never be sent.
	ErrUnsendable = errors.New("the meter event is unsendable")
)

// DefaultRetryAfter is the wait before a repeat if Stripe names none.
const DefaultRetryAfter = 5 * time.Second

// maxRetryAfter bounds the wait that Stripe can ask for.
const maxRetryAfter = time.Hour

// Error is an answer of Stripe that is an error, or the lack of an answer.
type Error struct {
	Kind       error         // one of the errors above
	Code       string        // of Stripe, such as "card_declined"; "" = none
	Message    string        // of Stripe, for people
	Request    string        // id of the request, with which Stripe's support finds it
	RetryAfter time.Duration // of ErrUnavailable
	Cause      error         // of ErrUnavailable without an answer
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%v: %s", e.Kind, e.Message)
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	if e.Request != "" {
		text += "; request " + e.Request
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Cause} }

// translate converts an error of the library. It returns nil for nil.
func translate(err error) error {
	var answer *stripego.Error
	if err == nil {
		return nil
	}
	if !errors.As(err, &answer) {
		return &Error{Kind: ErrUnavailable, Message: err.Error(), RetryAfter: DefaultRetryAfter, Cause: err}
	}
	e := &Error{Kind: ErrRefused, Code: string(answer.Code), Message: answer.Msg, Request: answer.RequestID}
	switch status := answer.HTTPStatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind = ErrKey
	case status == http.StatusPaymentRequired:
		e.Kind, e.Code = ErrDeclined, cmp.Or(string(answer.DeclineCode), e.Code)
	// 409 means that another process makes the same request now.
	case status == http.StatusTooManyRequests || status == http.StatusConflict || status >= 500:
		e.Kind, e.RetryAfter = ErrUnavailable, retryAfter(answer)
	}
	return e
}

// retryAfter returns the wait that Stripe asks for.
func retryAfter(answer *stripego.Error) time.Duration {
	if answer.LastResponse == nil {
		return DefaultRetryAfter
	}
	seconds, err := strconv.ParseInt(answer.LastResponse.Header.Get("Retry-After"), 10, 32)
	if err != nil || seconds <= 0 {
		return DefaultRetryAfter
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// mismatch makes an ErrMismatch.
func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMismatch, fmt.Sprintf(format, args...))
}

// invalid makes an ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
