package billing

import (
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/billing/money"
)

// bookWith returns a book with all plans, in which payg has the given further fields and prices.
func bookWith(fields, prices string) string {
	plan := func(name, fields, prices string) string {
		if fields == "" {
			fields = `"begins_at":"1970-01-01T00:00:00Z","price_version":"` + name + `-1"`
		}
		return `{"plan":"` + name + `",` + fields + `,"prices":[` + prices + `]}`
	}
	return `{"plans":[` + plan("free", "", "") + "," + plan("payg", fields, prices) + "," + plan("committed", "", "") + `]}`
}

func TestParsePlanBookRefuses(t *testing.T) {
	t.Parallel()
	const begins, v = `"begins_at":"1970-01-01T00:00:00Z"`, `"begins_at":"1970-01-01T00:00:00Z","price_version":"p"`
	tiers := func(tiers string) string {
		return `{"meter":"input_tokens","per":1,"included":5,"tiers":[` + tiers + `]}`
	}
	if _, err := ParsePlanBook([]byte(bookWith(v, tiers(`{"up_to":6,"usd":1},{"usd":0}`)))); err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{
		`{"plans":[]}`:                                   "there is no version of free",
		`{"plans":[],"more":1}`:                          "unknown field",
		bookWith(begins, ""):                             `"" is no price version`,
		bookWith(begins+`,"price_version":"a@b"`, ""):    "without @",
		bookWith(begins+`,"price_version":"free-1"`, ""): "two price versions free-1",
		bookWith(`"begins_at":"1970-01-01T01:00:00Z","price_version":"p"`, ""):            "begins in 1970",
		bookWith(`"begins_at":"1970-01-01T00:00:01Z","price_version":"p"`, ""):            "no whole hour",
		bookWith(v+`,"monthly_fee_usd":-1`, ""):                                           "a fee or a minimum is negative",
		bookWith(v+`,"minimum_usd":-1`, ""):                                               "a minimum is negative",
		bookWith(v+`,"minimum_usd":0.0000000001`, ""):                                     "more than nine decimals",
		bookWith(v+`,"discount_percent":101`, ""):                                         "discount of 101 percent",
		bookWith(v, tiers(`{"usd":0}`)+","+tiers(`{"usd":1}`)):                            "two prices",
		bookWith(v, tiers(``)):                                                            "0 tiers",
		bookWith(v, tiers(strings.Repeat(`{"usd":0},`, MaxTiers)+`{"usd":0}`)):            "21 tiers: it takes 1 to 20",
		bookWith(v, tiers(`{"usd":-1}`)):                                                  "negative price",
		bookWith(v, tiers(`{"up_to":6,"usd":1}`)):                                         "every tier but the last has an end",
		bookWith(v, tiers(`{"usd":1},{"usd":1}`)):                                         "every tier but the last has an end",
		bookWith(v, tiers(`{"up_to":5,"usd":1},{"usd":1}`)):                               "ends at 5 units, and begins at 5",
		bookWith(v, `{"meter":"cost_usd","per":1,"tiers":[{"usd":1}]}`):                   "money already",
		bookWith(v, `{"meter":"tea","per":1,"tiers":[{"usd":1}]}`):                        `no meter "tea"`,
		bookWith(v, `{"meter":"input_tokens","per":0,"tiers":[{"usd":1}]}`):               "for 0 units",
		bookWith(v, `{"meter":"input_tokens","per":1,"included":-1,"tiers":[{"usd":1}]}`): "includes -1 units",
	} {
		if _, err := ParsePlanBook([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// A version ends where the next one begins, and usage of one month is rated with both.
func TestANewVersionBegins(t *testing.T) {
	t.Parallel()
	const free, price = `"begins_at":"1970-01-01T00:00:00Z","price_version":"p-1"`, `{"meter":"input_tokens","per":1,"included":2,"tiers":[{"usd":`
	later := `,{"plan":"payg","begins_at":"2026-02-10T12:00:00Z","price_version":"p-2","prices":[` + price + `5}]}]}]}`
	book, err := ParsePlanBook([]byte(strings.TrimSuffix(bookWith(free, price+`3}]}`), "]}") + later))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)
	use := func(at time.Time, n int64) HourUsage {
		return HourUsage{HourNs: at.UnixNano(), Namespace: "prod", Meter: InputTokens, Quantity: money.CountOf(n)}
	}
	b, err := Rate(Rating{Month: at, Usage: []HourUsage{use(at, 10), use(at.Add(-time.Hour), 3)}, History: []PlanChange{{Plan: PayAsYouGo}}, Book: book})
	if err != nil {
		t.Fatal(err)
	}
	if b.Subtotal != 53*money.Dollar || len(b.Lines) != 3 || b.Lines[1].PriceVersion != "p-1" || b.Lines[2].PriceVersion != "p-2" {
		t.Errorf("the bill is\n%s", printBill(b))
	}
	if got := book.Versions(PayAsYouGo); len(got) != 2 || got[1].Version != "p-2" {
		t.Errorf("the versions are %+v", got)
	}
}

func TestPlanBegins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was, becomes Plan
		made, begins string
	}{
		{Free, PayAsYouGo, "2026-02-10T12:00:00Z", "2026-02-10T13:00:00Z"},
		{Free, Committed, "2026-02-28T23:59:59.999999999Z", "2026-03-01T00:00:00Z"},
		{PayAsYouGo, PayAsYouGo, "2026-02-10T12:30:00Z", "2026-02-10T13:00:00Z"},
		{PayAsYouGo, Free, "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{Committed, PayAsYouGo, "2026-12-31T23:30:00Z", "2027-01-01T00:00:00Z"},
	} {
		made, err := time.Parse(time.RFC3339, c.made)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Unix(0, PlanBegins(c.was, c.becomes, made.UnixNano())).UTC().Format(time.RFC3339); got != c.begins {
			t.Errorf("from %s to %s at %s: %s, want %s", c.was, c.becomes, c.made, got, c.begins)
		}
	}
}

// Every plan has a price for the same meters, so that a change of plan hides no usage.
func TestShippedPlansPriceTheSameMeters(t *testing.T) {
	t.Parallel()
	book := shippedBook(t)
	var want string
	for _, plan := range Plans {
		for _, v := range book.Versions(plan) {
			var meters []string
			for _, p := range v.Prices {
				meters = append(meters, p.Meter)
			}
			if got := strings.Join(meters, " "); want != "" && got != want {
				t.Errorf("%s prices %s, another version %s", v.Version, got, want)
			} else {
				want = got
			}
		}
	}
}
