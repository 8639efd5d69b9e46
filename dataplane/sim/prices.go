package sim

import (
	"cmp"
	"math/big"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// seedPrices replaces the shipped prices by those of a newer price book.
func (m *model) seedPrices(o *op.SeedPrices) outcome {
	if o.GetVersion() > m.priceBook {
		m.priceBook = o.GetVersion()
		for key := range m.resources {
			if key.kind == state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE {
				delete(m.resources, key)
			}
		}
		for _, p := range o.GetPrices() {
			r := proto.Clone(p).(*state.Resource)
			r.Version, r.CreatedNs = uint64(o.GetVersion()), m.clockNs
			m.resources[modelName{r.GetKind(), r.GetName()}] = r
		}
	}
	return outcome{result: &op.SeedPricesResult{}}
}

// spells reports whether a price covers a model, and how specific its name is. A whole name is more specific
// than any prefix.
func spells(p *state.Price, model string) (specific int, ok bool) {
	if prefix, open := strings.CutSuffix(p.GetModel(), "*"); open {
		return len(prefix), strings.HasPrefix(model, prefix)
	}
	return 1 << 30, p.GetModel() == model
}

// applies reports whether a price's tier covers a report with so much input, cached or not.
func applies(p *state.Price, tokens [4]int64) bool {
	return p.GetOverInputTokens() == 0 || tokens[0]+tokens[2]+tokens[3] > p.GetOverInputTokens()
}

// costAt returns the cost of tokens at a price. It rounds the cost of each kind by itself, half a nano-dollar
// up.
func costAt(p *state.Price, tokens [4]int64) *big.Int {
	sum := new(big.Int)
	for i, price := range perMillion(p) {
		product := new(big.Int).Mul(big.NewInt(tokens[i]), big.NewInt(price))
		sum.Add(sum, product.Add(product, big.NewInt(500_000)).Div(product, big.NewInt(1_000_000)))
	}
	return sum
}

func perMillion(p *state.Price) [4]int64 {
	return [4]int64{p.GetInputNanoUsd(), p.GetOutputNanoUsd(), p.GetCacheCreationNanoUsd(), p.GetCacheReadNanoUsd()}
}

// priceOf returns the price of a report, or nil. The namespace's own prices come before those that ship with
// the binary.
func (m *model) priceOf(provider, model string, tokens [4]int64) *state.Price {
	for _, kind := range []state.ResourceKind{state.ResourceKind_RESOURCE_KIND_PRICE, state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE} {
		var best *state.Price
		for _, r := range m.declaredOf(kind) {
			p := r.GetPrice()
			_, ok := spells(p, model)
			ok = ok && model != "" && applies(p, tokens) && (p.GetProvider() == "" || provider == "" || p.GetProvider() == provider)
			if ok && (best == nil || goesBefore(p, best, provider, model, tokens)) {
				best = p
			}
		}
		// Among the prices of the provider that was found, take the highest tier.
		for _, r := range m.declaredOf(kind) {
			p := r.GetPrice()
			if best != nil && p.GetModel() == best.GetModel() && p.GetProvider() == best.GetProvider() && applies(p, tokens) &&
				p.GetOverInputTokens() > best.GetOverInputTokens() {
				best = p
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// goesBefore reports whether the first of two prices of a model takes precedence: by the specificity of its
// name, by its provider, by its tier. If the report names no provider, the highest price among several
// providers wins.
func goesBefore(a, b *state.Price, provider, model string, tokens [4]int64) bool {
	specificA, _ := spells(a, model)
	specificB, _ := spells(b, model)
	if specificA != specificB {
		return specificA > specificB
	}
	if a.GetProvider() == b.GetProvider() {
		return a.GetOverInputTokens() > b.GetOverInputTokens()
	}
	if a.GetProvider() == provider || b.GetProvider() == provider { // also a price without provider, if the report names none
		return a.GetProvider() == provider
	}
	return costAt(a, tokens).Cmp(costAt(b, tokens)) > 0
}

// compute returns the cost of a report by the price book. any is false if the book has no price at all, and
// known is false if the cost is only an upper bound.
func (m *model) compute(provider, model string, tokens [4]int64) (cost *big.Int, any, known bool) {
	if p := m.priceOf(provider, model, tokens); p != nil {
		return costAt(p, tokens), true, true
	}
	ceiling := &state.Price{}
	for _, r := range m.resources {
		if p := r.GetPrice(); p != nil {
			any = true
			ceiling.InputNanoUsd = max(ceiling.InputNanoUsd, p.GetInputNanoUsd())
			ceiling.OutputNanoUsd = max(ceiling.OutputNanoUsd, p.GetOutputNanoUsd())
			ceiling.CacheCreationNanoUsd = max(ceiling.CacheCreationNanoUsd, p.GetCacheCreationNanoUsd())
			ceiling.CacheReadNanoUsd = max(ceiling.CacheReadNanoUsd, p.GetCacheReadNanoUsd())
		}
	}
	return costAt(ceiling, tokens), any, false
}

// knowsModel reports whether any price covers a model.
func (m *model) knowsModel(model string) bool {
	for _, r := range m.resources {
		if p := r.GetPrice(); p != nil {
			if _, ok := spells(p, model); ok {
				return true
			}
		}
	}
	return false
}

// report counts a worker's usage report in its job, as a row, for its provider and on the budgets. If the
// report is rejected, it returns the reason, and counts the report only as a rejected row.
func (m *model) report(j *modelJob, u *job.Usage, phase state.UsagePhase) (rejected string) {
	if u == nil {
		return ""
	}
	row := modelUsage{
		job: j.id, attempt: j.attempt, queue: j.queue, atNs: m.clockNs, tokens: tokensOf(u), costNano: u.GetCostNanoUsd(),
		said: u.GetCostReported() || u.GetCostNanoUsd() != 0, phase: phase, first: !j.reportedEver,
		key: j.fairnessKey, tags: tagsText(j.tags),
		model: cmp.Or(u.GetModel(), j.model, j.options.GetModel()), provider: cmp.Or(u.GetProvider(), j.provider),
	}
	// A rejected report is kept as a row, and uses up the reservation.
	if why := m.rejects(j, u, &row); why != "" {
		m.usage = append(m.usage, modelUsage{
			job: row.job, attempt: row.attempt, queue: row.queue, atNs: row.atNs, tokens: row.tokens, costNano: u.GetCostNanoUsd(),
			said: u.GetCostReported(), phase: phase, key: row.key, tags: row.tags, model: u.GetModel(), provider: u.GetProvider(), rejected: why,
		})
		m.rejections++
		if c := m.reservations[j.id]; c != nil {
			c.spent = max(c.spent, c.reserved)
		}
		return why
	}
	// An accepted one counts everywhere.
	j.reportedEver, j.model, j.provider = true, row.model, row.provider
	j.costNano += row.costNano
	for i, n := range row.tokens {
		j.tokens[i] += n
	}
	m.usage = append(m.usage, row)
	m.spendTokens(j, u)
	m.spend(j, row.costNano)
	return ""
}

// rejects adds the cost of its report to a row, or returns the reason to reject the report.
func (m *model) rejects(j *modelJob, u *job.Usage, row *modelUsage) string {
	if why := faultOf(u); why != "" {
		return why
	}
	if row.tokens != [4]int64{} {
		cost, any, known := m.compute(row.provider, row.model, row.tokens)
		row.unpriced = any && !known
		// An upper bound is no information about a report with a known cost, and a cost that does not fit
		// cannot be stored.
		if row.isComputed = any && (known || !row.said) && cost.IsInt64(); row.isComputed {
			row.computed = cost.Int64()
		}
		if any && !row.said && cost.Cmp(big.NewInt(job.MaxReportCost)) > 0 {
			return job.RejectedCost
		}
	}
	if !row.said {
		row.costNano = row.computed
	}
	tokens := new(big.Int)
	for i, n := range row.tokens {
		tokens.Add(tokens, big.NewInt(n)).Add(tokens, big.NewInt(j.tokens[i]))
	}
	if j.costNano+row.costNano > job.MaxJobCost || tokens.Cmp(big.NewInt(job.MaxJobTokens)) > 0 {
		return job.RejectedJob
	}
	return ""
}

// faultOf returns the fault of a report that does not depend on the job.
func faultOf(u *job.Usage) string {
	tokens := new(big.Int)
	for _, n := range tokensOf(u) {
		if n < 0 && u.GetRejected() == "" {
			return job.RejectedNegative
		}
		tokens.Add(tokens, big.NewInt(n))
	}
	switch {
	case u.GetRejected() != "":
		return u.GetRejected()
	case u.GetCostNanoUsd() < 0:
		return job.RejectedNegative
	case tokens.Cmp(big.NewInt(job.MaxReportTokens)) > 0:
		return job.RejectedTokens
	case u.GetCostNanoUsd() > job.MaxReportCost:
		return job.RejectedCost
	}
	return ""
}
