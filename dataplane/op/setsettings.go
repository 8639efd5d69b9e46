package op

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SetSettings replaces the namespace's settings. The retention of a state applies to settled jobs of queues
// that set none for that state, whenever the jobs settled, and to batches that complete later. The handling
// of unknown models applies to jobs that are fetched later.

// Validate refuses an op that no state could accept.
func (o *SetSettings) Validate() error {
	var p problems
	o.Meta.check(&p)
	if o.Settings == nil {
		p.add("settings", errors.New("is missing"))
	}
	for _, err := range job.CheckRetention(o.GetSettings().GetRetention()) {
		p.add("settings.retention", err)
	}
	switch unknown := o.GetSettings().GetUnknownModel(); unknown {
	case state.UnknownModel_UNKNOWN_MODEL_CEILING, state.UnknownModel_UNKNOWN_MODEL_HOLD:
	default:
		p.add("settings.unknown_model", fmt.Errorf("%d is unknown", unknown))
	}
	return p.err()
}

// Apply replaces the settings. It refuses nothing.
func (o *SetSettings) Apply(tx *state.Tx) (*SetSettingsResult, error) {
	if !proto.Equal(tx.Head().GetSettings(), o.Settings) {
		tx.Head().Settings = o.Settings
	}
	return &SetSettingsResult{}, nil
}
