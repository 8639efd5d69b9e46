package op

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// checkPrice checks a declared price.
func checkPrice(p *problems, o *PutResource) {
	price := o.GetResource().GetPrice()
	p.only(o, price != nil)
	p.price("", price)
}

// price records the faults of a price; prefix begins the names of its fields.
func (p *problems) price(prefix string, of *state.Price) {
	p.add(prefix+"provider", job.CheckText(of.GetProvider(), job.MaxUsageWord))
	switch model := of.GetModel(); {
	case model == "":
		p.add(prefix+"model", errors.New("is missing; * stands for any"))
	case strings.Contains(strings.TrimSuffix(model, "*"), "*"):
		p.add(prefix+"model", errors.New("may have a * at its end only"))
	default:
		p.add(prefix+"model", job.CheckText(model, job.MaxUsageWord))
	}
	if of.GetOverInputTokens() < 0 {
		p.add(prefix+"over_input_tokens", fmt.Errorf("is %d; it must be 0 or more", of.GetOverInputTokens()))
	}
	for _, each := range [...]struct {
		field string
		nano  int64
	}{
		{"input_usd_per_million", of.GetInputNanoUsd()},
		{"output_usd_per_million", of.GetOutputNanoUsd()},
		{"cache_creation_usd_per_million", of.GetCacheCreationNanoUsd()},
		{"cache_read_usd_per_million", of.GetCacheReadNanoUsd()},
	} {
		if each.nano < 0 || each.nano > job.MaxMoney {
			p.add(prefix+each.field, errors.New("must be from 0 to a billion dollars"))
		}
	}
}

// checkModel checks the model, provider and cost estimate of a job.
func (nj *NewJob) checkModel(p *problems, i int) {
	o := nj.GetOptions()
	if o == nil {
		return
	}
	if o.Provider != "" {
		p.item("jobs", i, "provider", job.CheckProviderName(o.Provider))
	}
	p.item("jobs", i, "model", job.CheckText(o.Model, job.MaxUsageWord))
	if n := o.CostEstimateNanoUsd; n < 0 || n > job.MaxMoney {
		p.item("jobs", i, "cost_estimate_usd", errAmount)
	}
}

// modelHolds begins the name in hold_by of a job that is held for its model.
const modelHolds = "model/"

// checkModel holds a job whose model has no known price, if the namespace's settings ask for that. After a
// person's approval the job runs without a known price.
func checkModel(g DecisionState, j *job.Job) (Verdict, error) {
	model := j.Options.GetModel()
	if model == "" || g.Head().GetSettings().GetUnknownModel() != state.UnknownModel_UNKNOWN_MODEL_HOLD || g.ResourceIndex().KnowsModel(model) {
		return Verdict{}, nil
	}
	for _, id := range j.Detail.GetApproved() {
		if waivesModel(j, id) {
			return Verdict{}, nil
		}
	}
	return Verdict{
		Do: Hold, Reason: ReasonModel, Name: modelHolds + model, Hold: job.Hold_HOLD_POLICY,
		Text: fmt.Sprintf("no price is known of model %q: add one at /prices, or approve the job to have it run at the dearest price there is", model),
	}, nil
}

// modelWaiver returns the id that stands for a model among the ids of the policies that are waived for a job.
func modelWaiver(model string) []byte {
	sum := sha256.Sum256([]byte(modelHolds + model))
	return sum[:len(job.ID{})]
}

// waivesModel reports whether an id among the job's waivers waives its model.
func waivesModel(j *job.Job, id []byte) bool {
	model := j.Options.GetModel()
	return model != "" && string(id) == string(modelWaiver(model))
}

// waiveModel records a person's approval of a job, if the job is held for its model.
func waiveModel(j *job.Job) {
	model := j.Options.GetModel()
	if d := j.Detail; d.GetHold() == job.Hold_HOLD_POLICY && model != "" && d.GetHoldBy() == modelHolds+model {
		d.Approved = append(d.Approved, modelWaiver(model))
	}
}

// ShippedPrices returns the op that stores the price book of this binary.
func ShippedPrices() (*SeedPrices, error) {
	book, err := billing.Shipped()
	if err != nil {
		return nil, err
	}
	o := &SeedPrices{Meta: &Meta{Principal: "duty"}, Version: book.Version}
	for _, p := range book.Prices {
		name := p.Provider + "/" + p.Model
		if p.OverInput != 0 {
			name = fmt.Sprintf("%s@%d", name, p.OverInput)
		}
		id := sha256.Sum256([]byte("price " + name))
		o.Prices = append(o.Prices, &state.Resource{
			Kind: state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE, Name: name, Id: id[:len(job.ID{})],
			Price: &state.Price{
				Provider: p.Provider, Model: p.Model, OverInputTokens: p.OverInput,
				InputNanoUsd: int64(p.Input), OutputNanoUsd: int64(p.Output),
				CacheCreationNanoUsd: int64(p.CacheCreation), CacheReadNanoUsd: int64(p.CacheRead),
			},
		})
	}
	return o, nil
}
