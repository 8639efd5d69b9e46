package op

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// checkAlertRule checks the fields of an alert rule.
func checkAlertRule(p *problems, o *PutResource) {
	r := o.GetResource().GetAlertRule()
	p.only(o, r != nil)
	if r.GetLabel() == "" {
		p.add("name", errors.New("is missing"))
	}
	p.add("name", job.CheckText(r.GetLabel(), job.MaxLabel))
	if r.GetWhen().Word() == "" {
		p.add("when", fmt.Errorf("%d is unknown", r.GetWhen()))
	}
	if r.GetWhen() == state.AlertSubject_ALERT_SUBJECT_BUDGET {
		if scope, target, _ := strings.Cut(r.GetTarget(), "/"); scope == "" || target == "" {
			p.add("target", fmt.Errorf("is %q; it names a budget as scope/target, such as queue/emails", r.GetTarget()))
		}
		p.add("target", job.CheckText(r.GetTarget(), job.MaxResourceName))
	} else if r.GetTarget() != "" {
		p.add("queue", job.CheckStoredQueueName(r.GetTarget()))
	}
	if r.GetComparison().Word() == "" {
		p.add("op", fmt.Errorf("%d is unknown", r.GetComparison()))
	}
	if t := r.GetThreshold(); math.IsNaN(t) || math.IsInf(t, 0) {
		p.add("threshold", errors.New("is not a finite number"))
	}
	if ms := r.GetForMs(); ms < 0 || ms > job.MaxAlertFor.Milliseconds() {
		p.add("for", fmt.Errorf("is %d ms; it lies between 0 and %s", ms, job.MaxAlertFor))
	}
	p.add("notify", checkResourceName(r.GetNotify()))
}

// admitAlertRule refuses with VALIDATION_ERROR a rule whose webhook does not exist, because the rule would
// notify nobody.
func admitAlertRule(tx *state.Tx, o *PutResource, _ *state.Resource) error {
	notify := o.Resource.AlertRule.Notify
	if tx.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_WEBHOOK, notify) == nil {
		return api.Errorf(api.ValidationError, "notify: there is no webhook %q: create it first", notify)
	}
	return nil
}

// deletedAlertRule deletes the alert record of a deleted rule.
func deletedAlertRule(tx *state.Tx, was *state.Resource) error {
	return tx.PutAlert([16]byte(was.Id), nil)
}
