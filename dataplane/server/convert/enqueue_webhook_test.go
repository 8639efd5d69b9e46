package convert

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// The query of a webhook can set every field of an enqueue that fits into a word, each under its own name.
func TestWebhookParamsAreWhole(t *testing.T) {
	t.Parallel()
	words := map[string]string{"unique_period": "7", "fairness_weight": "7", "max_retries": "7", "retry_jitter_percent": "7", "cost_estimate_usd": "0.000000007", "tags": "a:b"}
	kind := reflect.TypeFor[api.EnqueueRequest]()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		switch name {
		case "queue", "payload": // the path and the body
			continue
		case "headers", "checkpoint", "agent", "result_schema", "chain": // documents
			continue
		}
		at := slices.IndexFunc(WebhookParams, func(p WebhookParam) bool { return p.Name == name })
		if at < 0 {
			t.Errorf("%s cannot be said", name)
			continue
		}
		word := words[name]
		if word == "" {
			word = "7"
		}
		var r api.EnqueueRequest
		if err := WebhookParams[at].set(&r, word); err != nil {
			t.Errorf("%s=%s: %v", name, word, err)
		}
		got := reflect.ValueOf(r)
		for k := range kind.NumField() {
			if set := !got.Field(k).IsZero(); set != (k == i) {
				t.Errorf("%s=%s: field %s is set: %v", name, word, kind.Field(k).Name, set)
			}
		}
	}
}
