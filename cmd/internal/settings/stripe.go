package settings

import (
	"fmt"
	"os"
	"strings"
)

// StripeKeyVariable holds the secret key of the Stripe account. The key has no flag of its own, because everybody on the
// machine could read it in the process list.
const StripeKeyVariable = "CORVO_STRIPE_KEY"

// StripeKey returns the key in the file, or else the one in the environment. Every error is a mistake of the operator.
func StripeKey(file string, env func(string) (string, bool)) (string, error) {
	if file == "" {
		key, _ := env(StripeKeyVariable)
		if key = strings.TrimSpace(key); key == "" {
			return "", fmt.Errorf("--stripe-key-file is missing: it names a file with the secret key of the Stripe account, or set %s", StripeKeyVariable)
		}
		return key, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--stripe-key-file: %w; it names a file with the secret key of the Stripe account", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("--stripe-key-file: %s is empty; it names a file with the secret key of the Stripe account", file)
	}
	return key, nil
}
