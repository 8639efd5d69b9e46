package stripe

import (
	"errors"
	"testing"
	"time"

	"github.com/corvo/corvo/billing/stripe/stripefake"
)

func TestACrashMakesNoSecondCustomer(t *testing.T) {
	t.Parallel()
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashes(t, wait, func(f *fixture) error {
				_, err := f.EnsureCustomer(t.Context(), acme)
				return err
			}, func(t *testing.T, f *fixture) {
				all := f.fake.Objects("customer")
				if len(all) != 1 || all[0]["name"] != acme.Name || all[0]["address"].(map[string]any)["city"] != "Köln" {
					t.Errorf("customers: %v", all)
				}
			})
		})
	}
}

func TestAChangedProfileKeepsTheCustomer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.customer(t)
	changed := acme
	changed.Email = "new@acme.example"
	// The search does not find the customer yet.
	again, err := f.EnsureCustomer(t.Context(), changed)
	if err != nil || again != first {
		t.Fatalf("at once: %s, %v, want %s", again, err, first)
	}
	f.clock.Advance(stripefake.DefaultSearchLag)
	if again, err = f.EnsureCustomer(t.Context(), changed); err != nil || again != first {
		t.Fatalf("later: %s, %v, want %s", again, err, first)
	}
	if all := f.fake.Objects("customer"); len(all) != 1 || all[0]["email"] != changed.Email {
		t.Errorf("customers: %v", all)
	}
}

func TestTwoCustomersOfAnOrganisationAreAMismatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.customer(t)
	f.clock.Advance(25 * time.Hour)
	f.byHand(t, "/v1/customers", "metadata[corvo_org]=org_acme")
	f.clock.Advance(stripefake.DefaultSearchLag)
	if _, err := f.EnsureCustomer(t.Context(), acme); !errors.Is(err, ErrMismatch) {
		t.Errorf("%v", err)
	}
	if _, err := f.EnsureCustomer(t.Context(), Customer{Org: "a' OR '1"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("an id with a quote: %v", err)
	}
}
