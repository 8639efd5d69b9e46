package op_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	builders["seed-prices"] = (*story).seedPrices
	builders["put-price"] = (*story).putPrice
	builders["unknown-model"] = func(s *story, items []item) op.Op {
		o := &op.SetSettings{Settings: &state.Settings{}}
		if items[0].words[0] == "hold" {
			o.Settings.UnknownModel = state.UnknownModel_UNKNOWN_MODEL_HOLD
		}
		return o
	}
	moreValid = append(moreValid, func(w *world) op.Op { return seedPrices(1, "p/m=1") })
	prepare["seed-prices"] = func(w *world) op.Op {
		w.apply(seedPrices(1, "p/old=1", "p/m=1"))
		return seedPrices(2, "p/m=2", "p/n=3")
	}
}

// priced reads "provider/model@over=input:output:creation:read", in dollars for a million tokens. A kind that is
// left out costs as much as input.
func priced(text string) (name string, price *state.Price) {
	name, amounts, _ := strings.Cut(text, "=")
	at, over, _ := strings.Cut(name, "@")
	price = &state.Price{}
	price.Provider, price.Model, _ = strings.Cut(at, "/")
	fmt.Sscan(over, &price.OverInputTokens)
	into := []*int64{&price.InputNanoUsd, &price.OutputNanoUsd, &price.CacheCreationNanoUsd, &price.CacheReadNanoUsd}
	for i, amount := range strings.Split(amounts, ":") {
		n, err := money.Parse(amount)
		if err != nil {
			panic(err)
		}
		for ; i < len(into); i++ {
			*into[i] = int64(n)
		}
	}
	return name, price
}

func seedPrices(version uint32, prices ...string) *op.SeedPrices {
	o := &op.SeedPrices{Version: version}
	for _, text := range prices {
		name, price := priced(text)
		id := sha256.Sum256([]byte(name))
		o.Prices = append(o.Prices, &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE, Name: name, Id: id[:16], Price: price})
	}
	return o
}

// seedPrices reads a version and prices.
func (s *story) seedPrices(items []item) op.Op {
	o := seedPrices(uint32(items[0].number(s.t, "version", 0)), strings.Fields(strings.ReplaceAll(items[0].text("prices", ""), ",", " "))...)
	o.Meta = s.meta(items[0])
	return o
}

// putPrice reads a name and price=.
func (s *story) putPrice(items []item) op.Op {
	_, price := priced(items[0].text("price", ""))
	id := s.newID("")
	return &op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_PRICE, Name: items[0].words[0], Shards: 1, Price: price,
	}}
}

// printCosts prints the costs in the usage rows.
func (s *story) printCosts() {
	s.snapshot(func(v *state.Snapshot) {
		for row, err := range v.Usage(0) {
			if err != nil {
				s.t.Fatal(err)
			}
			r := row.Record
			fmt.Fprintf(&s.out, "  %d %s by %s: cost %d", row.Seq, s.name(r.JobId), strings.ToLower(strings.TrimPrefix(r.Phase.String(), "USAGE_PHASE_")), r.Report.CostNanoUsd)
			for _, flag := range []struct {
				text string
				is   bool
			}{{"reported", r.Report.CostReported}, {fmt.Sprintf("computed %d", r.ComputedNanoUsd), r.Computed}, {"unpriced", r.Unpriced}, {"first", r.First}} {
				if flag.is {
					fmt.Fprintf(&s.out, ", %s", flag.text)
				}
			}
			fmt.Fprintf(&s.out, "; model %q provider %q\n", r.Report.Model, r.Report.Provider)
		}
	})
}

// printBook prints the prices there are.
func (s *story) printBook() {
	fmt.Fprintf(&s.out, "book %d:", s.store.Head().PriceBook)
	for _, kind := range []state.ResourceKind{state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE, state.ResourceKind_RESOURCE_KIND_PRICE} {
		for _, r := range s.store.ResourceIndex().Resources(kind) {
			fmt.Fprintf(&s.out, " %s %d:%d", r.Name, r.Price.InputNanoUsd, r.Price.OutputNanoUsd)
		}
	}
	s.out.WriteString("\n")
}

func TestPricesThatAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("m", job.MaxUsageWord)
	for name, c := range map[string]struct {
		change func(p *state.Price)
		field  string // empty: it is accepted
	}{
		"as they are":         {func(*state.Price) {}, ""},
		"everybody's, free":   {func(p *state.Price) { *p = state.Price{Model: "*"} }, ""},
		"at the bounds":       {func(p *state.Price) { p.Model, p.Provider, p.InputNanoUsd = long, long, job.MaxMoney }, ""},
		"no model":            {func(p *state.Price) { p.Model = "" }, "model"},
		"a long model":        {func(p *state.Price) { p.Model = long + "m" }, "model"},
		"a star in the midst": {func(p *state.Price) { p.Model = "a*b" }, "model"},
		"two stars":           {func(p *state.Price) { p.Model = "a**" }, "model"},
		"a long provider":     {func(p *state.Price) { p.Provider = long + "m" }, "provider"},
		"a negative tier":     {func(p *state.Price) { p.OverInputTokens = -1 }, "over_input_tokens"},
		"a negative price":    {func(p *state.Price) { p.CacheReadNanoUsd = -1 }, "cache_read_usd_per_million"},
		"beyond a billion":    {func(p *state.Price) { p.OutputNanoUsd = job.MaxMoney + 1 }, "output_usd_per_million"},
	} {
		w := newWorld(t)
		seed := seedPrices(1, "p/m=1")
		c.change(seed.Prices[0].Price)
		id := w.newID("")
		put := &op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
			Kind: state.ResourceKind_RESOURCE_KIND_PRICE, Name: "price_1", Shards: 1, Price: seed.Prices[0].Price,
		}}
		for _, o := range []op.Op{seed, put} {
			err := o.Validate()
			if c.field == "" && err != nil || c.field != "" && (api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), c.field)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	many := seedPrices(1)
	for i := range job.MaxPrices {
		many.Prices = append(many.Prices, seedPrices(1, fmt.Sprintf("p/m%d=1", i)).Prices...)
	}
	if err := many.Validate(); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	many.Prices = append(many.Prices, seedPrices(1, "p/m=1").Prices...)
	if err := many.Validate(); api.CodeOf(err) != api.ValidationError {
		t.Errorf("one too many: %v", err)
	}
}

// The usage of every job of a world equals the sum of its rows, for any reporter and any number of repeats, while
// prices change.
func TestTheRowsAddUpToTheJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	leased := w.leased("q", 6)
	for i, prices := range []string{"", "p/m=1:3", "p/m=0.7:0.3", "p/m*=2.000000001"} {
		if prices != "" {
			w.apply(seedPrices(uint32(i), prices))
		}
		beat := &op.Heartbeat{Meta: &op.Meta{RequestId: w.newSeed()}}
		for at, l := range leased {
			u := &job.Usage{InputTokens: int64(7 + at), OutputTokens: int64(3 * at), Provider: "p", Model: []string{"m", "m-2", "other", ""}[(at+i)%4]}
			if at%3 == 0 {
				u.CostReported, u.CostNanoUsd = true, int64(at)
			}
			beat.Items = append(beat.Items, &op.HeartbeatItem{Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Usage: u})
		}
		w.apply(beat)
		w.apply(beat)
	}
	o := ack(leased...)
	for _, item := range o.Items {
		item.Usage = &job.Usage{OutputTokens: 11}
	}
	w.apply(o)
	w.apply(o)

	var rows, jobs, firsts int64
	v := w.store.Snapshot()
	defer v.Close()
	for row, err := range v.Usage(0) {
		if err != nil {
			t.Fatal(err)
		}
		rows += row.Record.Report.CostNanoUsd
		if row.Record.First {
			firsts++
		}
	}
	for j, err := range v.Jobs() {
		if err != nil {
			t.Fatal(err)
		}
		jobs += j.Usage.CostNanoUsd
	}
	if rows != jobs || rows == 0 {
		t.Errorf("the rows cost %d, the jobs %d", rows, jobs)
	}
	if n := v.Head().UsageNextSeq - 1; n != 5*6 || firsts != 6 {
		t.Errorf("%d rows of %d jobs", n, firsts)
	}
	w.check()
}

func TestWhatAJobWillUseIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("m", job.MaxUsageWord)
	for field, c := range map[string]struct{ at, beyond *job.Options }{
		"model":             {&job.Options{Model: long}, &job.Options{Model: long + "m"}},
		"provider":          {&job.Options{Provider: long}, &job.Options{Provider: long + "m"}},
		"cost_estimate_usd": {&job.Options{CostEstimateNanoUsd: job.MaxMoney}, &job.Options{CostEstimateNanoUsd: job.MaxMoney + 1}},
	} {
		w := newWorld(t)
		o := w.newJobs("q", 1)
		o.Jobs[0].Options = c.at
		if err := o.Validate(); err != nil {
			t.Errorf("%s at its bound: %v", field, err)
		}
		o.Jobs[0].Options = c.beyond
		if err := o.Validate(); api.CodeOf(err) != api.ValidationError || !strings.Contains(err.Error(), field) {
			t.Errorf("%s beyond its bound: %v", field, err)
		}
	}
}
