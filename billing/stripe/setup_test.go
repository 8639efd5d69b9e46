package stripe

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var installed = Installation{WebhookURL: "https://cloud.example/cloud/v1/webhooks/stripe", ReturnURL: "https://app.example/billing"}

func TestSetupIsRepeatableAfterACrash(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"at once": 0, "after two days": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secrets := map[*fixture]string{}
			want := func(f *fixture) Installation {
				w := installed
				w.Secret = secrets[f]
				return w
			}
			crashes(t, wait, func(f *fixture) error {
				_, err := f.Setup(t.Context(), want(f), func(secret string) error {
					secrets[f] = secret
					return nil
				})
				return err
			}, func(t *testing.T, f *fixture) {
				if faults, err := f.Check(t.Context(), want(f)); err != nil || len(faults) != 0 {
					t.Errorf("faults: %q, %v", faults, err)
				}
				changes, err := f.Setup(t.Context(), want(f), func(string) error { return errors.New("a second secret") })
				if err != nil || len(changes) != 0 {
					t.Errorf("a repeat changes %q, %v", changes, err)
				}
				endpoints, portals, meters := f.fake.Objects("webhook_endpoint"), f.fake.Objects("billing_portal.configuration"), f.fake.Objects("billing.meter")
				if len(endpoints) != 1 || len(portals) != 1 || len(meters) != len(units) || endpoints[0]["api_version"] != APIVersion {
					t.Errorf("%d endpoints, %d portals, %d meters", len(endpoints), len(portals), len(meters))
				}
			})
		})
	}
}

func TestCheckNamesEachFaultAndSetupRepairsIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if faults, err := f.Check(t.Context(), installed); err != nil || len(faults) != len(units)+2 {
		t.Fatalf("of an empty account: %q, %v", faults, err)
	}
	want := installed
	keep := func(secret string) error {
		want.Secret = secret
		return nil
	}
	if _, err := f.Setup(t.Context(), want, keep); err != nil {
		t.Fatal(err)
	}
	meter := f.fake.Objects("billing.meter")[3]
	endpoint := f.fake.Objects("webhook_endpoint")[0]["id"].(string)
	portal := f.fake.Objects("billing_portal.configuration")[0]["id"].(string)
	f.byHand(t, "/v1/billing/meters/"+meter["id"].(string)+"/deactivate")
	f.byHand(t, "/v1/webhook_endpoints/"+endpoint, "enabled_events[0]=invoice.paid")
	f.byHand(t, "/v1/billing_portal/configurations/"+portal, "features[customer_update][enabled]=true")
	faults, err := f.Check(t.Context(), want)
	if err != nil || len(faults) != 3 || !strings.Contains(faults[0], meter["event_name"].(string)) {
		t.Errorf("%q, %v", faults, err)
	}
	if changes, err := f.Setup(t.Context(), want, keep); err != nil || len(changes) != 3 {
		t.Errorf("%q, %v", changes, err)
	}
	if faults, err := f.Check(t.Context(), want); err != nil || len(faults) != 0 {
		t.Errorf("after the repair: %q, %v", faults, err)
	}
	// Without the secret there is a new endpoint, and the old one goes.
	want.Secret = ""
	if changes, err := f.Setup(t.Context(), want, keep); err != nil || len(changes) != 2 || want.Secret == "" {
		t.Errorf("%q, %v", changes, err)
	}
	if all := f.fake.Objects("webhook_endpoint"); len(all) != 1 || all[0]["id"] == endpoint {
		t.Errorf("%v", all)
	}
}

func TestAMeterThatCountsOtherwiseIsAMismatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.byHand(t, "/v1/billing/meters", "display_name=Jobs", "event_name=corvo_jobs_enqueued", "event_time_window=day", "default_aggregation[formula]=sum")
	if _, err := f.Setup(t.Context(), installed, func(string) error { return nil }); !errors.Is(err, ErrMismatch) {
		t.Errorf("%v", err)
	}
}

func TestThePortalNeedsSetup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	customer := f.customer(t)
	if _, err := f.PortalSession(t.Context(), customer, "https://app.example/billing"); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	if _, err := f.setupPortal(t.Context(), installed); err != nil {
		t.Fatal(err)
	}
	url, err := f.PortalSession(t.Context(), customer, "https://app.example/billing")
	if err != nil || !strings.HasPrefix(url, fakeURL+"/pages/portal/") {
		t.Errorf("%s, %v", url, err)
	}
}

func TestASecretThatCannotBeKeptMakesNoSecondEndpoint(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	full := errors.New("disk full")
	if _, err := f.Setup(t.Context(), installed, func(string) error { return full }); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if _, err := f.Setup(t.Context(), installed, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if all := f.fake.Objects("webhook_endpoint"); len(all) != 1 {
		t.Errorf("%v", all)
	}
}
