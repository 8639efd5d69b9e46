package stripe

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/billing/stripe/stripefake"
)

// signed returns a header with a signature of each secret.
func signed(body string, at time.Time, secrets ...string) string {
	header := fmt.Sprintf("t=%d", at.Unix())
	for _, s := range secrets {
		header += ",v1=" + stripefake.Signature(s, at, []byte(body))
	}
	return header
}

func TestWebhooksAreVerified(t *testing.T) {
	t.Parallel()
	const body = `{"id":"evt_1","type":"invoice.paid","api_version":"2023-10-16","created":1772323200,"livemode":true,"data":{"object":{"id":"in_1","object":"invoice"}}}`
	old := strings.Replace(body, "2023-10-16", "2020-08-27", 1)
	for name, c := range map[string]struct {
		body, header string
		secrets      []string
		want         error
	}{
		"one secret":               {body, signed(body, start, "a"), []string{"a"}, nil},
		"during a rotation":        {body, signed(body, start, "a", "b"), []string{"b", "c"}, nil},
		"of the old secret":        {body, signed(body, start, "a"), []string{"b", "a"}, nil},
		"as old as the limit":      {body, signed(body, start.Add(-WebhookTolerance), "a"), []string{"a"}, nil},
		"as far ahead":             {body, signed(body, start.Add(WebhookTolerance), "a"), []string{"a"}, nil},
		"too old":                  {body, signed(body, start.Add(-WebhookTolerance-time.Second), "a"), []string{"a"}, ErrForged},
		"too far ahead":            {body, signed(body, start.Add(WebhookTolerance+time.Second), "a"), []string{"a"}, ErrForged},
		"another secret":           {body, signed(body, start, "b"), []string{"a"}, ErrForged},
		"no secret":                {body, signed(body, start, ""), nil, ErrForged},
		"an empty secret":          {body, signed(body, start, ""), []string{""}, ErrForged},
		"another body":             {body + " ", signed(body, start, "a"), []string{"a"}, ErrForged},
		"another time":             {body, strings.Replace(signed(body, start, "a"), "t=", "t=1", 1), []string{"a"}, ErrForged},
		"no header":                {body, "", []string{"a"}, ErrForged},
		"no number":                {body, "t=x,v1=00", []string{"a"}, ErrForged},
		"no signature":             {body, fmt.Sprintf("t=%d", start.Unix()), []string{"a"}, ErrForged},
		"another version":          {old, signed(old, start, "a"), []string{"a"}, ErrVersion},
		"three secrets":            {body, signed(body, start, "a"), []string{"a", "b", "c"}, ErrInvalid},
		"signed, and not JSON":     {"{", signed("{", start, "a"), []string{"a"}, ErrInvalid},
		"signed, and not an event": {`{"api_version":"2023-10-16"}`, signed(`{"api_version":"2023-10-16"}`, start, "a"), []string{"a"}, ErrInvalid},
		"too large":                {strings.Repeat(" ", MaxWebhookBytes+1), "", []string{"a"}, ErrForged},
	} {
		e, err := VerifyWebhook([]byte(c.body), c.header, c.secrets, start)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if want := (Event{"evt_1", "invoice.paid", "in_1", "invoice", start, true}); c.want == nil && e != want {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
