package billing

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/corvo/corvo/billing/money"
)

// The expected costs are computed by hand from the shipped prices.
func TestShippedPrices(t *testing.T) {
	t.Parallel()
	book, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	p := NewPrices(book.Prices)
	for _, c := range []struct {
		provider, model string
		tokens          Tokens
		want            string // dollars; "" = no price is known
	}{
		{"anthropic", "claude-sonnet-4-5-20250929", Tokens{Input: 1000, Output: 500, CacheCreation: 2000, CacheRead: 10_000}, "0.021"},
		{"anthropic", "claude-sonnet-4-5", Tokens{Input: 200_000}, "0.6"},
		{"anthropic", "claude-sonnet-4-5", Tokens{Input: 200_001}, "1.200006"},
		{"anthropic", "claude-sonnet-4-5", Tokens{Input: 1, CacheCreation: 100_000, CacheRead: 100_000}, "0.810006"},
		{"anthropic", "claude-opus-4-20250514", Tokens{Output: 1}, "0.000075"},
		{"anthropic", "claude-opus-4-5", Tokens{Output: 1}, "0.000025"},
		{"", "claude-haiku-4-5", Tokens{CacheRead: 1}, "0.0000001"},
		{"openai", "gpt-4o-mini", Tokens{Input: 3, CacheRead: 1}, "0.000000525"},
		{"openai", "gpt-5-nano", Tokens{CacheRead: 1}, "0.000000005"},
		{"openai", "gpt-5-2025-08-07", Tokens{Input: 1_000_000, Output: 1_000_000}, "11.25"},
		{"google", "gemini-2.5-pro", Tokens{Input: 200_001}, "0.5000025"},
		{"google", "gemini-2.5-flash", Tokens{Output: 4}, "0.00001"},
		{"bedrock", "claude-haiku-4-5", Tokens{Input: 1}, ""},
		{"openai", "gpt-9", Tokens{Input: 1}, ""},
		{"openai", "", Tokens{Input: 1}, ""},
	} {
		price, ok := p.Match(c.provider, c.model, c.tokens)
		if !ok {
			if c.want != "" {
				t.Errorf("%s of %q has no price", c.model, c.provider)
			}
			continue
		}
		if got, err := price.Rate(c.tokens); err != nil || got.String() != c.want {
			t.Errorf("%s of %q: %+v cost %v, %v; want %q", c.model, c.provider, c.tokens, got, err, c.want)
		}
	}
	most := Price{Input: 15 * money.Dollar, Output: 75 * money.Dollar, CacheCreation: 18_750_000_000, CacheRead: 1_500_000_000}
	if diff := cmp.Diff(most, p.Ceiling()); diff != "" {
		t.Errorf("the ceiling (-want +got):\n%s", diff)
	}
}

func TestMatchPrefers(t *testing.T) {
	t.Parallel()
	at := func(provider, model string, over, input int64) Price {
		return Price{Provider: provider, Model: model, OverInput: over, Input: money.Nano(input)}
	}
	p := NewPrices([]Price{
		at("a", "m-1", 0, 1), at("", "m-1", 0, 2), at("b", "m*", 0, 3), at("", "m-*", 0, 4), at("", "*", 100, 5),
		at("c", "m-2", 10, 6), at("c", "m-2", 20, 7), at("x", "n", 0, 8), at("y", "n", 0, 9), at("c", "m-2", 20, 10),
	})
	for _, c := range []struct {
		provider, model string
		tokens          Tokens
		want            int64
	}{
		{"a", "m-1", Tokens{}, 1},
		{"b", "m-1", Tokens{}, 2},               // the model itself wins over a prefix of the provider
		{"", "m-1", Tokens{}, 2},                // the price for any provider, if no provider is given
		{"b", "m-9", Tokens{}, 4},               // the longer prefix
		{"b", "m9", Tokens{}, 3},                // the shorter prefix
		{"a", "m9", Tokens{Input: 100}, 0},      // another provider has a price, and the input exceeds no tier of the shortest prefix
		{"a", "m9", Tokens{Input: 101}, 5},      // only a tier
		{"c", "m-2", Tokens{Input: 10}, 4},      // below the lowest tier: the next best price
		{"c", "m-2", Tokens{Input: 11}, 6},      // above the lowest tier
		{"c", "m-2", Tokens{Input: 20}, 6},      // at the bound of the next tier
		{"c", "m-2", Tokens{CacheRead: 21}, 10}, // above it; of two equal prices the later one
		{"", "n", Tokens{Input: 1e6}, 9},        // the highest of several providers
		{"x", "n", Tokens{Input: 1e6}, 8},
	} {
		got, ok := p.Match(c.provider, c.model, c.tokens)
		if int64(got.Input) != c.want || ok != (c.want != 0) {
			t.Errorf("%q of %q with %+v has price %d, %v; want %d", c.model, c.provider, c.tokens, got.Input, ok, c.want)
		}
	}
	var none *Prices
	if p.Empty() || !p.Knows("z") {
		t.Errorf("a table with prices: empty %v, knows z %v", p.Empty(), p.Knows("z"))
	}
	if !none.Empty() || none.Knows("m") {
		t.Errorf("no prices: empty %v, knows m %v", none.Empty(), none.Knows("m"))
	}
	if got, ok := none.Match("a", "m", Tokens{}); ok {
		t.Errorf("no prices match: %+v", got)
	}
	if got := none.Ceiling(); got != (Price{}) {
		t.Errorf("no prices have the ceiling %+v", got)
	}
}

func TestRateAtItsBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		price  Price
		tokens Tokens
		want   money.Nano
		err    error
	}{
		{"nothing", Price{Input: money.Max}, Tokens{}, 0, nil},
		{"just below a half", Price{Input: 499_999}, Tokens{Input: 1}, 0, nil},
		{"a half is rounded up", Price{Input: 500_000}, Tokens{Input: 1}, 1, nil},
		{"each kind for itself", Price{Input: 500_000, Output: 500_000}, Tokens{Input: 1, Output: 1}, 2, nil},
		{"the most there is", Price{Input: money.Max}, Tokens{Input: perTokens}, money.Max, nil},
		{"a token more", Price{Input: money.Max}, Tokens{Input: perTokens + 1}, 0, ErrOverflow},
		{"the other way round", Price{Output: perTokens}, Tokens{Output: math.MaxInt64}, money.Max, nil},
		{"a price more", Price{Output: perTokens + 1}, Tokens{Output: math.MaxInt64}, 0, ErrOverflow},
		{"a quotient of more than 64 bits", Price{Output: money.Max}, Tokens{Output: math.MaxInt64}, 0, ErrOverflow},
		{"a sum too large", Price{Input: money.Max, Output: 500_000}, Tokens{Input: perTokens, Output: 1}, 0, ErrOverflow},
	} {
		if got, err := c.price.Rate(c.tokens); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
	if _, ok := NewPrices([]Price{{Model: "m", OverInput: math.MaxInt64 - 1}}).Match("", "m", Tokens{Input: math.MaxInt64, CacheRead: math.MaxInt64}); !ok {
		t.Error("input that does not fit exceeds no tier")
	}
}

// Rate agrees with exact arithmetic.
func TestRateIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) int64 {
			return rapid.Int64Range(0, math.MaxInt64>>rapid.IntRange(0, 62).Draw(t, "shift")).Draw(t, name)
		}
		tokens := Tokens{Input: n("input"), Output: n("output"), CacheCreation: n("creation"), CacheRead: n("read")}
		price := Price{Input: money.Nano(n("a")), Output: money.Nano(n("b")), CacheCreation: money.Nano(n("c")), CacheRead: money.Nano(n("d"))}
		want := new(big.Int)
		for _, d := range [][2]int64{{tokens.Input, int64(price.Input)}, {tokens.Output, int64(price.Output)},
			{tokens.CacheCreation, int64(price.CacheCreation)}, {tokens.CacheRead, int64(price.CacheRead)}} {
			x := new(big.Int).Mul(big.NewInt(d[0]), big.NewInt(d[1]))
			x.Add(x, big.NewInt(perTokens/2)).Quo(x, big.NewInt(perTokens))
			want.Add(want, x)
		}
		got, err := price.Rate(tokens)
		if !want.IsInt64() {
			if !errors.Is(err, ErrOverflow) {
				t.Fatalf("%v is %d, %v", want, got, err)
			}
			return
		}
		if err != nil || int64(got) != want.Int64() {
			t.Fatalf("%d, %v; want %v", got, err, want)
		}
	})
}

func TestParsePriceBookRefuses(t *testing.T) {
	t.Parallel()
	const good = `{"version":1,"prices":[{"provider":"p","model":"m","input_usd_per_million":0.000000001,"output_usd_per_million":2}]}`
	if b, err := ParsePriceBook([]byte(good)); err != nil || b.Prices[0].Input != 1 || b.Prices[0].Output != 2*money.Dollar {
		t.Errorf("%+v, %v", b, err)
	}
	for _, c := range []struct{ from, to, want string }{
		{`"version":1,`, ``, "version"},
		{`0.000000001`, `0.0000000001`, "nine decimals"},
		{`"provider":"p"`, `"provider":""`, "provider"},
		{`"model":"m"`, `"model":""`, "model"},
		{`"model":"m"`, `"model":"m","typo":1`, "typo"},
		{`:2}`, `:-2}`, "negative"},
		{`:2}]`, `:2},{"provider":"p","model":"m"}]`, "twice"},
	} {
		if _, err := ParsePriceBook([]byte(strings.Replace(good, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s instead of %s: %v", c.to, c.from, err)
		}
	}
}
