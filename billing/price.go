package billing

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/corvo/corvo/billing/money"
)

// perTokens is the number of tokens that a price is for.
const perTokens = 1_000_000

// anyEnding, at the end of Price.Model, matches every ending.
const anyEnding = "*"

// Tokens are the tokens of one usage report. No token counts twice: input that was read from a cache, or
// written to one, is not in Input.
type Tokens struct {
	Input, Output, CacheCreation, CacheRead int64
}

// None reports whether no tokens were used.
func (t Tokens) None() bool { return t == Tokens{} }

// context returns the number of all input tokens, cached or not, at most math.MaxInt64.
func (t Tokens) context() int64 {
	sum := t.Input
	for _, n := range [...]int64{t.CacheCreation, t.CacheRead} {
		if n > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += n
	}
	return sum
}

// Price is the price of the tokens of a model, in nano-dollars per million tokens.
type Price struct {
	Provider string `json:"provider"` // "" = any provider
	Model    string `json:"model"`    // a trailing * matches every ending
	// OverInput is the tier of the price: the price applies to reports with more input tokens than that,
	// cached or not. 0 = all reports.
	OverInput     int64      `json:"over_input_tokens,omitempty"`
	Input         money.Nano `json:"input_usd_per_million"`
	Output        money.Nano `json:"output_usd_per_million"`
	CacheCreation money.Nano `json:"cache_creation_usd_per_million"`
	CacheRead     money.Nano `json:"cache_read_usd_per_million"`
}

// Rate returns the cost of tokens. It rounds the cost of each kind of token half up to a nano-dollar. The
// error is ErrOverflow if the sum does not fit, and also for negative prices or tokens, which the caller must
// not pass.
func (p Price) Rate(t Tokens) (money.Nano, error) {
	var sum money.Nano
	for _, d := range [...]struct {
		tokens int64
		price  money.Nano
	}{{t.Input, p.Input}, {t.Output, p.Output}, {t.CacheCreation, p.CacheCreation}, {t.CacheRead, p.CacheRead}} {
		cost, err := rate(d.tokens, d.price)
		if err == nil {
			sum, err = sum.Add(cost)
		}
		if err != nil {
			return 0, ErrOverflow
		}
	}
	return sum, nil
}

// rate returns tokens x price / perTokens, rounded half up. It computes in 128 bits.
func rate(tokens int64, price money.Nano) (money.Nano, error) {
	if tokens < 0 || price < 0 {
		return 0, fmt.Errorf("%d tokens at %d nano-dollars: neither may be negative", tokens, int64(price))
	}
	hi, lo := bits.Mul64(uint64(tokens), uint64(price))
	lo, carry := bits.Add64(lo, perTokens/2, 0)
	hi += carry // cannot wrap: the product of two 63-bit numbers has 126 bits
	if hi >= perTokens {
		return 0, ErrOverflow
	}
	quotient, _ := bits.Div64(hi, lo, perTokens)
	if quotient > math.MaxInt64 {
		return 0, ErrOverflow
	}
	return money.Nano(quotient), nil
}

// Prices finds the price of a model. It is immutable. The zero Prices and nil know no price.
type Prices struct {
	exact    map[string][]tiers // by model
	prefixes map[string][]tiers // by model without its *
	lengths  []int              // of the keys of prefixes, the longest first
	ceiling  Price              // see Ceiling
}

// tiers are the prices of a model of one provider, the highest tier first.
type tiers struct {
	provider string
	prices   []Price
}

// NewPrices indexes prices. If two have the same provider, model and tier, the later one counts.
func NewPrices(all []Price) *Prices {
	p := &Prices{exact: map[string][]tiers{}, prefixes: map[string][]tiers{}}
	for _, price := range all {
		p.ceiling.Input = max(p.ceiling.Input, price.Input)
		p.ceiling.Output = max(p.ceiling.Output, price.Output)
		p.ceiling.CacheCreation = max(p.ceiling.CacheCreation, price.CacheCreation)
		p.ceiling.CacheRead = max(p.ceiling.CacheRead, price.CacheRead)
		if prefix, ok := strings.CutSuffix(price.Model, anyEnding); ok {
			if p.prefixes[prefix] == nil {
				p.lengths = append(p.lengths, len(prefix))
			}
			p.prefixes[prefix] = withPrice(p.prefixes[prefix], price)
		} else {
			p.exact[price.Model] = withPrice(p.exact[price.Model], price)
		}
	}
	slices.Sort(p.lengths)
	p.lengths = slices.Compact(p.lengths)
	slices.Reverse(p.lengths)
	return p
}

// withPrice adds a price to the prices of its model.
func withPrice(of []tiers, price Price) []tiers {
	i, ok := slices.BinarySearchFunc(of, price.Provider, func(t tiers, provider string) int { return strings.Compare(t.provider, provider) })
	if !ok {
		of = slices.Insert(of, i, tiers{provider: price.Provider})
	}
	at, same := slices.BinarySearchFunc(of[i].prices, price.OverInput, func(p Price, over int64) int {
		switch {
		case p.OverInput > over:
			return -1
		case p.OverInput < over:
			return 1
		}
		return 0
	})
	if same {
		of[i].prices[at] = price
	} else {
		of[i].prices = slices.Insert(of[i].prices, at, price)
	}
	return of
}

// Empty reports whether no price is known.
func (p *Prices) Empty() bool { return p == nil || len(p.exact)+len(p.lengths) == 0 }

// Ceiling returns the highest price of each kind of token among all prices given to NewPrices, also replaced
// ones. No model with a known price costs more.
func (p *Prices) Ceiling() Price {
	if p == nil {
		return Price{}
	}
	return p.ceiling
}

// Match returns the price of tokens of a provider's model. It prefers, in this order:
//
//   - the price of the model itself, then the price of the longest matching prefix;
//   - of one model or prefix, the price of the provider, then a price for any provider;
//   - of one provider, the highest tier that the input exceeds.
//
// If provider is "" and only prices of named providers match, Match returns the price with the highest cost.
// It returns false if no price matches, as for a model that only other providers price.
func (p *Prices) Match(provider, model string, t Tokens) (Price, bool) {
	if p == nil || model == "" {
		return Price{}, false
	}
	if price, ok := choose(p.exact[model], provider, t); ok {
		return price, true
	}
	for _, n := range p.lengths {
		if n > len(model) {
			continue
		}
		if price, ok := choose(p.prefixes[model[:n]], provider, t); ok {
			return price, true
		}
	}
	return Price{}, false
}

// Knows reports whether any provider has a price for the model.
func (p *Prices) Knows(model string) bool {
	_, ok := p.Match("", model, Tokens{Input: math.MaxInt64})
	return ok
}

// choose selects from the prices of one model or prefix.
func choose(of []tiers, provider string, t Tokens) (best Price, found bool) {
	context := t.context()
	for _, own := range [...]string{provider, ""} {
		for _, each := range of {
			if each.provider != own {
				continue
			}
			if price, ok := each.tier(context); ok {
				return price, true
			}
		}
	}
	if provider != "" {
		return Price{}, false
	}
	var most money.Nano
	for _, each := range of {
		price, ok := each.tier(context)
		if !ok {
			continue
		}
		cost, err := price.Rate(t)
		if err != nil {
			cost = money.Max
		}
		if !found || cost > most {
			best, most, found = price, cost, true
		}
	}
	return best, found
}

// tier returns the price of the highest tier that the input exceeds, if there is one.
func (t tiers) tier(context int64) (Price, bool) {
	for _, price := range t.prices {
		if price.OverInput == 0 || context > price.OverInput {
			return price, true
		}
	}
	return Price{}, false
}

// PriceBook is a list of prices with a version. A later version replaces an earlier one.
type PriceBook struct {
	Version uint32  `json:"version"`
	Prices  []Price `json:"prices"`
}

// ParsePriceBook parses the JSON form of a price book. It refuses unknown fields, a missing version, a price
// without provider or model, two prices with the same provider, model and tier, and negative numbers.
func ParsePriceBook(text []byte) (PriceBook, error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	var b PriceBook
	if err := d.Decode(&b); err != nil {
		return PriceBook{}, fmt.Errorf("read the price book: %w", err)
	}
	if b.Version == 0 {
		return PriceBook{}, errors.New("read the price book: its version is missing")
	}
	type place struct {
		provider, model string
		over            int64
	}
	seen := map[place]bool{}
	for i, p := range b.Prices {
		at := place{p.Provider, p.Model, p.OverInput}
		switch {
		case p.Provider == "" || p.Model == "":
			return PriceBook{}, fmt.Errorf("price %d of the book needs a provider and a model", i)
		case seen[at]:
			return PriceBook{}, fmt.Errorf("price %d of the book is there twice: %s of %s", i, p.Model, p.Provider)
		case min(p.Input, p.Output, p.CacheCreation, p.CacheRead) < 0 || p.OverInput < 0:
			return PriceBook{}, fmt.Errorf("price %d of the book is negative: %s of %s", i, p.Model, p.Provider)
		}
		seen[at] = true
	}
	return b, nil
}

//go:embed prices.json
var shipped []byte

// Shipped returns the price book that comes with the binary.
func Shipped() (PriceBook, error) { return ParsePriceBook(shipped) }
