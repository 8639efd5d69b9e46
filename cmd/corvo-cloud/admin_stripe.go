package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/billing/stripe"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/durable"
)

// stripeAccount names a Stripe account and what is to be in it.
type stripeAccount struct {
	KeyFile           string `flag:"stripe-key-file" doc:"file with the secret key of the Stripe account; or CORVO_STRIPE_KEY"`
	URL               string `flag:"stripe-url" default:"https://api.stripe.com" doc:"URL of Stripe, or of the fake of corvo-cloud dev --stripe-fake"`
	WebhookURL        string `flag:"webhook-url" doc:"URL of this cloud at which Stripe calls, https://.../cloud/v1/webhooks/stripe; required"`
	WebhookSecretFile string `flag:"webhook-secret-file" default:"data/stripe-webhook.secret" doc:"file for the secret of the webhook endpoint, which setup writes"`
	ReturnURL         string `flag:"return-url" doc:"URL to which the billing portal leads back; required"`
	Config            string `flag:"config" doc:"file with settings, one 'flag-name: value' a line (YAML)"`
}

func (a *stripeAccount) check(f *misuse.Faults) {
	checkURL(f, "--stripe-url", a.URL, "the URL of Stripe", stripe.DefaultURL)
	checkURL(f, "--webhook-url", a.WebhookURL, "the URL at which Stripe calls this cloud", "https://cloud.example.com/cloud/v1/webhooks/stripe")
	checkURL(f, "--return-url", a.ReturnURL, "the URL to which the billing portal leads back", "https://app.example.com/billing")
	f.Refuse(a.WebhookSecretFile != "", "--webhook-secret-file is empty")
}

// open makes a client of Stripe and reads the webhook secret, if there is one.
func (a *stripeAccount) open() (*stripe.Client, stripe.Installation, error) {
	want := stripe.Installation{WebhookURL: a.WebhookURL, ReturnURL: a.ReturnURL}
	key, err := settings.StripeKey(a.KeyFile, os.LookupEnv)
	if err != nil {
		return nil, want, misuse.Of(err)
	}
	text, err := os.ReadFile(a.WebhookSecretFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, want, misuse.Errorf("--webhook-secret-file: %w", err)
	}
	want.Secret = strings.TrimSpace(string(text))
	return stripe.New(stripe.Config{Key: key, URL: strings.TrimRight(a.URL, "/")}), want, nil
}

// newStripe makes the commands about the Stripe account.
func newStripe() *cobra.Command {
	group := misuse.Group(&cobra.Command{Use: "stripe", Short: "Set up and check the Stripe account"})
	group.AddCommand(newStripeSetup(), newStripeCheck())
	return group
}

func newStripeSetup() *cobra.Command {
	var account stripeAccount
	cmd := command("setup", "Create meters, billing portal and webhook endpoint in Stripe", &account, &account.Config,
		func(ctx context.Context, cmd *cobra.Command) error { return account.setup(ctx, cmd.OutOrStdout()) })
	cmd.Long = "Create meters, the configuration of the billing portal and the webhook endpoint in Stripe. A repeat changes only what\n" +
		"differs. The command writes the secret of the endpoint into --webhook-secret-file, because Stripe shows it only once.\n" +
		"Without that file a repeat makes a new endpoint and removes the old one.\n\n" + settings.Help
	return cmd
}

func (a *stripeAccount) setup(ctx context.Context, out io.Writer) error {
	client, want, err := a.open()
	if err != nil {
		return err
	}
	changes, err := client.Setup(ctx, want, func(secret string) error {
		return durable.WriteFile(a.WebhookSecretFile, []byte(secret+"\n"), 0o600)
	})
	for _, change := range changes {
		fmt.Fprintln(out, change)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Stripe is set up; the webhook secret is in %s\n", a.WebhookSecretFile)
	return err
}

func newStripeCheck() *cobra.Command {
	var account stripeAccount
	cmd := command("check", "Compare the Stripe account with the one that setup makes", &account, &account.Config,
		func(ctx context.Context, cmd *cobra.Command) error { return account.compare(ctx, cmd.OutOrStdout()) })
	cmd.Long = "Compare the Stripe account with the one that setup makes. The command changes nothing, prints a line for each fault, and\n" +
		"then exits with 1.\n\n" + settings.Help
	return cmd
}

func (a *stripeAccount) compare(ctx context.Context, out io.Writer) error {
	client, want, err := a.open()
	if err != nil {
		return err
	}
	faults, err := client.Check(ctx, want)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		fmt.Fprintln(out, fault)
	}
	if len(faults) > 0 {
		return fmt.Errorf("the Stripe account has %d faults: run corvo-cloud admin stripe setup", len(faults))
	}
	_, err = fmt.Fprintln(out, "Stripe is set up")
	return err
}
