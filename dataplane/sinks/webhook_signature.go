package sinks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/corvo/corvo/dataplane/state"
)

// signature proves that the sender of a body knows the webhook's secret, and when it was sent: a receiver
// refuses an old signature, so that nobody can replay the request. While a secret is being replaced, the
// signature proves both secrets.
func signature(hook *state.Webhook, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	sign := func(secret string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(t + "."))
		mac.Write(body)
		return ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	text := "t=" + t + sign(hook.Secret)
	if hook.PreviousSecret != "" && at.UnixNano() < hook.PreviousUntilNs {
		text += sign(hook.PreviousSecret)
	}
	return text
}
