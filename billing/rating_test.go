package billing

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/billing/money"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// A story is a file of bills/. The part above its line of dashes is the input:
//
//	month 2026-02
//	plan 2026-02-10T08 payg [overrides in JSON]
//	use 2026-02-03T10 prod input_tokens 5000000 [provider model]
//
// The part below is the bill. Lines that begin with # are for people.
const dashes = "---"

// hourLayout is the form of hours in stories.
const hourLayout = "2006-01-02T15"

func shippedBook(t testing.TB) *PlanBook {
	t.Helper()
	book, err := ShippedPlans()
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// readStory parses the input of a story.
func readStory(t testing.TB, text string) (r Rating) {
	t.Helper()
	r.Book = shippedBook(t)
	parsed := func(layout, text string) time.Time {
		at, err := time.Parse(layout, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "month":
			r.Month = parsed("2006-01", words[1])
		case words[0] == "plan":
			o, err := ParseOverrides([]byte(strings.Join(words[3:], "")))
			if err != nil {
				t.Fatal(err)
			}
			r.History = append(r.History, PlanChange{parsed(hourLayout, words[1]).UnixNano(), Plan(words[2]), o})
		case words[0] == "use":
			m, known := MeterNamed(words[3])
			u := HourUsage{HourNs: parsed(hourLayout, words[1]).UnixNano(), Namespace: words[2], Meter: m}
			if err := u.Quantity.UnmarshalJSON([]byte(words[4])); err != nil || !known {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			if len(words) > 5 {
				u.Provider, u.Model = words[5], words[6]
			}
			r.Usage = append(r.Usage, u)
		default:
			t.Fatalf("the story has a line %q", lines.Text())
		}
	}
	return r
}

// printBill is the form of a bill in stories.
func printBill(b Bill) string {
	var out strings.Builder
	for _, l := range b.Lines {
		fmt.Fprintf(&out, "%-18s %-6s %-26s tier %d: %s x %s / %d = %s\n", l.Item, l.Namespace, l.PriceVersion, l.Tier, l.Quantity, l.UnitPrice, l.Per, l.Amount)
	}
	fmt.Fprintf(&out, "rounding %s\nsubtotal %s\nllm_cost %s\n", b.Rounding, b.Subtotal, b.LLMCost.Total)
	for _, m := range b.LLMCost.ByModel {
		fmt.Fprintf(&out, "llm_cost of %s %s %s\n", m.Provider, m.Model, m.Cost)
	}
	return out.String()
}

func TestGoldenBills(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bills/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(text), dashes+"\n")
			b, err := Rate(readStory(t, input))
			if err != nil {
				t.Fatal(err)
			}
			checkBill(t, b)
			got := printBill(b)
			if *rewrite {
				if err := os.WriteFile(file, []byte(input+dashes+"\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("the bill is now\n%s\nit was\n%s", got, want)
			}
		})
	}
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkBill checks that the lines and the rounding make the subtotal, which is in whole cents.
func checkBill(t failer, b Bill) {
	t.Helper()
	sum := b.Rounding
	for _, l := range b.Lines {
		sum += l.Amount
	}
	if sum != b.Subtotal || b.Subtotal%Cent != 0 || b.Subtotal < 0 || max(b.Rounding, -b.Rounding) > Cent/2 {
		t.Fatalf("the lines and the rounding make %v:\n%s", sum, printBill(b))
	}
}

// month is the month of drawn bills.
var month = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)

// drawUsage draws rows of few keys, so that several meet in each tier.
func drawUsage(t *rapid.T, namespaces int) (all []HourUsage) {
	for range rapid.IntRange(0, 12).Draw(t, "rows") {
		all = append(all, HourUsage{
			HourNs:    month.Add(time.Duration(rapid.IntRange(0, 28*24-1).Draw(t, "hour")) * time.Hour).UnixNano(),
			Namespace: fmt.Sprint("ns", rapid.IntRange(1, namespaces).Draw(t, "namespace")),
			Meter:     rapid.SampledFrom([]Meter{InputTokens, OutputTokens, CacheReadTokens, ResponseBytes, Reports, Cost}).Draw(t, "meter"),
			Quantity:  money.CountOf(rapid.SampledFrom([]int64{0, 1, 7, 999_999, 12_345_678, 987_654_321, 55_555_555_555, 77_777_777_777_777}).Draw(t, "quantity")),
		})
	}
	return all
}

func drawHistory(t *rapid.T) (all []PlanChange) {
	at := month.Add(-time.Hour)
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		at = at.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "hours")) * time.Hour)
		c := PlanChange{FromNs: at.UnixNano(), Plan: rapid.SampledFrom(Plans).Draw(t, "plan")}
		if rapid.Bool().Draw(t, "overridden") {
			c.Overrides = &Overrides{Discount: new(rapid.Int64Range(0, 100).Draw(t, "discount")), Prices: []PlatformPrice{
				{Meter: "input_tokens", Per: 3, Included: 1000, Tiers: []Tier{{UpTo: 5000, Price: 2}, {UpTo: 1 << 40, Price: 1}, {Price: 5}}}}}
		}
		all = append(all, c)
	}
	return all
}

func rated(t *rapid.T, r Rating) Bill {
	t.Helper()
	b, err := Rate(r)
	if err != nil {
		t.Fatalf("%v", err)
	}
	checkBill(t, b)
	return b
}

// The division of quantities among rows, and the order of rows, do not change a bill.
func TestRowsDoNotChangeABill(t *testing.T) {
	t.Parallel()
	book := shippedBook(t)
	rapid.Check(t, func(t *rapid.T) {
		r := Rating{Month: month, Usage: drawUsage(t, 3), History: drawHistory(t), Book: book}
		before := rated(t, r)
		var divided []HourUsage
		for _, u := range r.Usage {
			part := u
			part.Quantity = money.CountOf(rapid.Int64Range(0, u.Quantity.Int64()).Draw(t, "part"))
			u.Quantity = u.Quantity.Minus(part.Quantity)
			divided = append(divided, part, u)
		}
		r.Usage = rapid.Permutation(divided).Draw(t, "order")
		if after := rated(t, r); !reflect.DeepEqual(after, before) {
			t.Fatalf("the bill\n%s\nbecame\n%s", printBill(before), printBill(after))
		}
	})
}

// Each line's quantity is that of rows, and the lines of a meter have all its quantity.
func TestLinesHaveAllUsage(t *testing.T) {
	t.Parallel()
	book := shippedBook(t)
	rapid.Check(t, func(t *rapid.T) {
		r := Rating{Month: month, Usage: drawUsage(t, 3), History: drawHistory(t), Book: book}
		type key struct{ meter, namespace string }
		want, got := map[key]money.Count{}, map[key]money.Count{}
		for _, u := range r.Usage {
			if u.Meter != Reports && u.Meter != Cost && u.Quantity != (money.Count{}) {
				k := key{u.Meter.String(), u.Namespace}
				want[k] = want[k].Add(u.Quantity)
			}
		}
		for _, l := range rated(t, r).Lines {
			if l.Namespace != "" {
				k := key{l.Item, l.Namespace}
				got[k] = got[k].Add(l.Quantity)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("the lines have %v, the rows %v", got, want)
		}
	})
}

// More usage never makes a bill of one namespace and one price version smaller.
func TestABillIsMonotone(t *testing.T) {
	t.Parallel()
	book := shippedBook(t)
	rapid.Check(t, func(t *rapid.T) {
		r := Rating{Month: month, Usage: drawUsage(t, 1), Book: book}
		if plan := rapid.SampledFrom(Plans).Draw(t, "plan"); plan != Free {
			r.History = []PlanChange{{FromNs: 0, Plan: plan}}
		}
		before := rated(t, r)
		r.Usage = append(slices.Clone(r.Usage), drawUsage(t, 1)...)
		if after := rated(t, r); after.Subtotal < before.Subtotal {
			t.Fatalf("the bill\n%s\nbecame\n%s", printBill(before), printBill(after))
		}
	})
}

// Usage that breaks a rule, and sums that do not fit, are errors of their own.
func TestRateRefuses(t *testing.T) {
	t.Parallel()
	var most money.Count // 2^127 - 1
	if err := most.UnmarshalJSON([]byte("99999999999999999999999999999999999999")); err != nil {
		t.Fatal(err)
	}
	row := func(m Meter, q money.Count) HourUsage {
		return HourUsage{HourNs: month.UnixNano(), Namespace: "prod", Meter: m, Quantity: q}
	}
	late := row(InputTokens, money.CountOf(1))
	late.HourNs += int64(28 * 24 * time.Hour)
	half := row(InputTokens, money.CountOf(1))
	half.HourNs += int64(30 * time.Minute)
	priced := func(price, fee, minimum money.Nano) []PlanChange {
		return []PlanChange{{Plan: PayAsYouGo, Overrides: &Overrides{Fee: &fee, Minimum: &minimum, Prices: []PlatformPrice{
			{Meter: "input_tokens", Per: 1, Tiers: []Tier{{Price: price}}}, {Meter: "output_tokens", Per: 1, Tiers: []Tier{{Price: price}}}}}}}
	}
	one := money.CountOf(1)
	for name, c := range map[string]struct {
		usage   []HourUsage
		history []PlanChange
		want    error
	}{
		"negative":          {[]HourUsage{row(InputTokens, money.CountOf(-1))}, nil, ErrUnratable},
		"unknown meter":     {[]HourUsage{row(metersEnd, one)}, nil, ErrUnratable},
		"no meter":          {[]HourUsage{row(0, one)}, nil, ErrUnratable},
		"next month":        {[]HourUsage{late}, nil, ErrUnratable},
		"half an hour":      {[]HourUsage{half}, nil, ErrUnratable},
		"unknown plan":      {nil, []PlanChange{{Plan: "resale"}}, ErrUnratable},
		"history's order":   {nil, []PlanChange{{FromNs: int64(time.Hour), Plan: Free}, {Plan: Free}}, ErrUnratable},
		"history's hours":   {nil, []PlanChange{{FromNs: 1, Plan: Free}}, ErrUnratable},
		"quantity of 2^127": {[]HourUsage{row(InputTokens, most), row(InputTokens, most)}, nil, ErrOverflow},
		"cost of 2^127":     {[]HourUsage{row(Cost, most), row(Cost, most)}, nil, ErrOverflow},
		"amount of 2^63":    {[]HourUsage{row(InputTokens, money.CountOf(math.MaxInt64))}, priced(2, 0, 0), ErrOverflow},
		"amount near 2^127": {[]HourUsage{row(InputTokens, most)}, priced(1, 0, 0), ErrOverflow},
		"sum of 2^63":       {[]HourUsage{row(InputTokens, money.CountOf(math.MaxInt64)), row(OutputTokens, one)}, priced(1, 0, 0), ErrOverflow},
		"fee above 2^63":    {[]HourUsage{row(InputTokens, money.CountOf(math.MaxInt64))}, priced(1, 1, 0), ErrOverflow},
	} {
		if b, err := Rate(Rating{Month: month, Usage: c.usage, History: c.history, Book: shippedBook(t)}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v; the bill is\n%s", name, err, c.want, printBill(b))
		}
	}
	// The largest bill.
	b, err := Rate(Rating{Month: month, Usage: []HourUsage{row(InputTokens, money.CountOf(math.MaxInt64))}, History: priced(1, 0, money.Max), Book: shippedBook(t)})
	if want := money.Max - money.Max%Cent; err != nil || b.Subtotal != want || b.Rounding != want-money.Max {
		t.Errorf("the largest bill is %v, %v, want %v", b.Subtotal, err, want)
	}
}
