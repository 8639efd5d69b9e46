package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// resourceKind is one row of the table of resources that a namespace may declare. The code of each kind has its
// own file.
type resourceKind struct {
	name string // for people
	most int    // the maximum number of resources of the kind
	// check checks a declaration without looking at the state.
	check func(p *problems, o *PutResource)
	// admit refuses a declaration that conflicts with the state and fills in fields that keep their values. It
	// writes nothing, and a sent declaration skips it. was is the replaced resource or nil. admit may be nil.
	admit func(tx *state.Tx, o *PutResource, was *state.Resource) error
	// release refuses to delete a resource that something else needs. It writes nothing, and a sent deletion skips
	// it. It may be nil.
	release func(tx *state.Tx, was *state.Resource) error
	// put updates the records that depend on a declaration, after the resource itself was stored. was is the
	// replaced resource or nil. An error stops the replica. put may be nil.
	put func(tx *state.Tx, o *PutResource, was *state.Resource) error
	// deleted updates the records that depend on a resource after its deletion. An error stops the replica. It may
	// be nil.
	deleted func(tx *state.Tx, was *state.Resource) error
}

// resourceKinds are all kinds of resources.
var resourceKinds = map[state.ResourceKind]*resourceKind{
	state.ResourceKind_RESOURCE_KIND_LIMIT_RULE:      {name: "limit rule", most: job.MaxLimitRules, check: checkLimitRule, put: putLimitRule, deleted: deletedLimitRule},
	state.ResourceKind_RESOURCE_KIND_PROVIDER:        {name: "provider", most: job.MaxProviders, check: checkProviderSpec, deleted: deletedProvider},
	state.ResourceKind_RESOURCE_KIND_PRICE:           {name: "price", most: job.MaxPrices, check: checkPrice},
	state.ResourceKind_RESOURCE_KIND_BUDGET:          {name: "budget", most: job.MaxBudgets, check: checkBudget, put: putBudget, deleted: deletedBudget},
	state.ResourceKind_RESOURCE_KIND_APPROVAL_POLICY: {name: "approval policy", most: job.MaxApprovalPolicies, check: checkApprovalPolicy, admit: admitApprovalPolicy},
	state.ResourceKind_RESOURCE_KIND_ALERT_RULE:      {name: "alert rule", most: job.MaxAlertRules, check: checkAlertRule, admit: admitAlertRule, deleted: deletedAlertRule},
	state.ResourceKind_RESOURCE_KIND_WEBHOOK:         {name: "webhook", most: job.MaxWebhooks, check: checkWebhook, admit: admitWebhook, put: putWebhook, release: releaseWebhook, deleted: deletedWebhook},
	kindRole:                                         {name: "role", most: job.MaxRoles, check: checkRole, release: releaseRole},
}

// takeBack deletes a resource of the kind and the records that depend on it.
func (k *resourceKind) takeBack(tx *state.Tx, was *state.Resource) error {
	if err := tx.DeleteResource(was.Kind, was.Name); err != nil {
		return err
	}
	if k.deleted == nil {
		return nil
	}
	if err := k.deleted(tx, was); err != nil {
		return fmt.Errorf("%s %q: %w", k.name, was.Name, err)
	}
	return nil
}

// only records a resource that does not have exactly one content, or whose content is of another kind. own reports
// whether the resource has a content of its kind.
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
