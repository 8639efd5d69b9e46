package state

import (
	"cmp"
	"slices"
	"strings"
)

// ResourceIndex indexes the namespace's resources for the lookups that decisions need. Apply and any number
// of readers share a ResourceIndex and its resources, so nobody changes them: a change of a resource builds a
// new index. A nil or zero ResourceIndex is empty.
type ResourceIndex struct {
	all     map[resourceName]*Resource
	byID    map[[16]byte]*Resource
	lists   map[ResourceKind][]*Resource // sorted by name
	budgets map[budgetTarget]*Resource
	rules   map[string]map[string]*LimitRule // by queue and key
	prices  prices
}

// budgetTarget names the spending that a budget limits.
type budgetTarget struct {
	scope  BudgetScope
	target string
}

func newResourceIndex(all map[resourceName]*Resource) *ResourceIndex {
	b := &ResourceIndex{
		all: make(map[resourceName]*Resource, len(all)), byID: make(map[[16]byte]*Resource, len(all)),
		lists: map[ResourceKind][]*Resource{}, budgets: map[budgetTarget]*Resource{}, rules: map[string]map[string]*LimitRule{},
	}
	for name, r := range all {
		b.all[name] = r
		b.byID[[16]byte(r.Id)] = r
		b.lists[r.Kind] = append(b.lists[r.Kind], r)
		switch r.Kind {
		case ResourceKind_RESOURCE_KIND_BUDGET:
			b.budgets[budgetTarget{r.Budget.GetScope(), r.Budget.GetTarget()}] = r
		case ResourceKind_RESOURCE_KIND_LIMIT_RULE:
			queue := r.LimitRule.GetQueue()
			if b.rules[queue] == nil {
				b.rules[queue] = map[string]*LimitRule{}
			}
			b.rules[queue][r.LimitRule.GetKey()] = r.LimitRule
		}
	}
	for _, list := range b.lists {
		slices.SortFunc(list, func(a, b *Resource) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
		})
	}
	b.prices = newPrices(b.lists[ResourceKind_RESOURCE_KIND_PRICE], b.lists[ResourceKind_RESOURCE_KIND_SHIPPED_PRICE])
	return b
}

// Resource returns a resource by kind and name, or nil if there is none.
func (b *ResourceIndex) Resource(kind ResourceKind, name string) *Resource {
	if b == nil {
		return nil
	}
	return b.all[resourceName{kind, name}]
}

// ResourceByID returns a resource by its id, or nil if there is none.
func (b *ResourceIndex) ResourceByID(id [16]byte) *Resource {
	if b == nil {
		return nil
	}
	return b.byID[id]
}

// Resources returns the resources of a kind, sorted by name.
func (b *ResourceIndex) Resources(kind ResourceKind) []*Resource {
	if b == nil {
		return nil
	}
	return b.lists[kind]
}

// BudgetFor returns the budget of a scope and target, or nil if there is none.
func (b *ResourceIndex) BudgetFor(scope BudgetScope, target string) *Resource {
	if b == nil {
		return nil
	}
	return b.budgets[budgetTarget{scope, target}]
}

// RuleFor returns the limit rule of a queue's fairness key: the key's own rule, else the rule for every key,
// else nil. No rule covers the empty key.
func (b *ResourceIndex) RuleFor(queue, key string) *LimitRule {
	if b == nil || key == "" {
		return nil
	}
	rules := b.rules[queue]
	if rule := rules[key]; rule != nil {
		return rule
	}
	return rules[EveryKey]
}

// EveryKey is the key of a limit rule that covers every fairness key without a rule of its own. No job can
// have it as its key.
const EveryKey = "*"

// Governs reports whether a budget, a provider or an approval policy may keep back a job that is otherwise
// ready. If not, a fetch skips the checks of jobs without options. Limit rules are not among the checks,
// because the lanes apply them.
func (b *ResourceIndex) Governs() bool {
	return b != nil && (len(b.budgets) > 0 ||
		len(b.lists[ResourceKind_RESOURCE_KIND_PROVIDER]) > 0 ||
		len(b.lists[ResourceKind_RESOURCE_KIND_APPROVAL_POLICY]) > 0)
}
