package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// resourceKind is one row of the table of resources: what may be declared for a
// namespace. Each has a file of its own.
type resourceKind struct {
	noun string // for people
	most int    // of them
	// check looks at what is declared: all that no state could accept.
	check func(p *problems, o *PutResource)
	// admit refuses a declaration that does not fit what else there is, and fills in
	// what it leaves as it was. It looks only; was is what is replaced, nil for none.
	// May be nil.
	admit func(tx *state.Tx, o *PutResource, was *state.Resource) error
	// release refuses to take back what something else needs. It looks only. May be
	// nil.
	release func(tx *state.Tx, was *state.Resource) error
	// put does what follows from a declaration, which the book has already; was is
	// what it replaced. May be nil.
	put func(tx *state.Tx, o *PutResource, was *state.Resource) error
	// deleted does what follows from taking it back; the book has it no more. May be
	// nil.
	deleted func(tx *state.Tx, was *state.Resource) error
}

// resourceKinds is every kind there is.
var resourceKinds = map[state.ResourceKind]*resourceKind{
	state.ResourceKind_RESOURCE_KIND_LIMIT_RULE:      {noun: "limit rule", most: job.MaxLimitRules, check: checkLimitRule, put: putLimitRule, deleted: deletedLimitRule},
	state.ResourceKind_RESOURCE_KIND_PROVIDER:        {noun: "provider", most: job.MaxProviders, check: checkProviderSpec, deleted: deletedProvider},
	state.ResourceKind_RESOURCE_KIND_PRICE:           {noun: "price", most: job.MaxPrices, check: checkPrice},
	state.ResourceKind_RESOURCE_KIND_BUDGET:          {noun: "budget", most: job.MaxBudgets, check: checkBudget, put: putBudget, deleted: deletedBudget},
	state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY: {noun: "approval policy", most: job.MaxApprovalPolicies, check: checkApprovalPolicy, admit: admitApprovalPolicy},
	state.ResourceKind_RESOURCE_KIND_ALERT_RULE:      {noun: "alert rule", most: job.MaxAlertRules, check: checkAlertRule, admit: admitAlertRule, deleted: deletedAlertRule},
	state.ResourceKind_RESOURCE_KIND_WEBHOOK:         {noun: "webhook", most: job.MaxWebhooks, check: checkWebhook, admit: admitWebhook, put: putWebhook, release: releaseWebhook, deleted: deletedWebhook},
	kindRole:                                         {noun: "role", most: job.MaxRoles, check: checkRole, release: releaseRole},
}

// takeBack removes a resource of the kind, and what has come of it.
func (k *resourceKind) takeBack(tx *state.Tx, was *state.Resource) error {
	if err := tx.DeleteResource(was.Kind, was.Name); err != nil {
		return err
	}
	if k.deleted == nil {
		return nil
	}
	if err := k.deleted(tx, was); err != nil {
		return fmt.Errorf("%s %q: %w", k.noun, was.Name, err)
	}
	return nil
}

// only records what a resource says of another kind than its own.
func (p *problems) only(o *PutResource, own bool) {
	said := 0
	r := o.GetResource()
	for _, there := range [...]bool{r.GetLimitRule() != nil, r.GetProvider() != nil, r.GetPrice() != nil, r.GetBudget() != nil,
		r.GetApprovalPolicy() != nil, r.GetAlertRule() != nil, r.GetWebhook() != nil, r.GetRole() != nil} {
		if there {
			said++
		}
	}
	if !own || said != 1 {
		p.add("resource", fmt.Errorf("has %d contents; one of its kind belongs there", said))
	}
}
