package op

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// SetSettings replaces the namespace's settings. Retention binds jobs that settle
// from then on, in queues that say nothing themselves.

// Number is SetSettings's number in the log.
func (*SetSettings) Number() entry.Number { return numSetSettings }

// Class is SetSettings's place among waiting proposals.
func (*SetSettings) Class() pipeline.Class { return table[numSetSettings].Class }

// Validate refuses what no state could accept.
func (o *SetSettings) Validate() error {
	var p problems
	o.Meta.check(&p)
	if o.Settings == nil {
		p.add("settings", errors.New("is missing"))
	}
	for _, err := range job.CheckRetention(o.GetSettings().GetRetention()) {
		p.add("settings.retention", err)
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
