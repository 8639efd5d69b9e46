package state

import (
	"cmp"
	"slices"
	"strings"
)

// Book is the namespace's resources, ordered for those who decide by them. It is
// made anew when one changes and never changed itself: apply and any number of
// readers share it. The zero Book, and nil, has none.
type Book struct {
	all     map[resourceName]*Resource
	byID    map[[16]byte]*Resource
	lists   map[ResourceKind][]*Resource // by name
	budgets map[budgetTarget]*Resource
	rules   map[string]map[string]*LimitRule // by queue and key
	prices  prices
}

// budgetTarget is whose spending a budget bounds.
type budgetTarget struct {
	scope  BudgetScope
	target string
}

func newBook(all map[resourceName]*Resource) *Book {
	b := &Book{
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

// Resource is a resource by kind and name; nil when there is none.
func (b *Book) Resource(kind ResourceKind, name string) *Resource {
	if b == nil {
		return nil
	}
	return b.all[resourceName{kind, name}]
}

// ResourceByID is a resource by its id; nil when there is none.
func (b *Book) ResourceByID(id [16]byte) *Resource {
	if b == nil {
		return nil
	}
	return b.byID[id]
}

// Resources lists the resources of a kind by name.
func (b *Book) Resources(kind ResourceKind) []*Resource {
	if b == nil {
		return nil
	}
	return b.lists[kind]
}

// BudgetFor is the budget of a scope and target; nil when there is none.
func (b *Book) BudgetFor(scope BudgetScope, target string) *Resource {
	if b == nil {
		return nil
	}
	return b.budgets[budgetTarget{scope, target}]
}

// RuleFor is the rule of a queue's fairness key: its own, else that of every key;
// nil when there is none.
func (b *Book) RuleFor(queue, key string) *LimitRule {
	if b == nil || key == "" {
		return nil
	}
	rules := b.rules[queue]
	if rule := rules[key]; rule != nil {
		return rule
	}
	return rules[EveryKey]
}

// EveryKey is the key of a limit rule for each key that has none of its own. No job
// has it.
const EveryKey = "*"

// Governs says whether anything in the book may keep a job that is otherwise free to
// be fetched: where it says no, a fetch need not ask.
func (b *Book) Governs() bool {
	return b != nil && (len(b.budgets) > 0 ||
		len(b.lists[ResourceKind_RESOURCE_KIND_PROVIDER]) > 0 ||
		len(b.lists[ResourceKind_RESOURCE_KIND_APPROVAL_POLICY]) > 0)
}
