package cell

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// settingsInterval is the pause before a leader tries again to set the retention.
const settingsInterval = 5 * time.Second

// applySettings sets the namespace's retention as the operator of the leader's node requested, once in a
// leadership, and keeps the other settings. If members were given different retentions, or only some of them
// have one, the retention of the last leader that was given one applies.
func (c *Cell) applySettings(ctx context.Context) {
	if c.cfg.Retention == 0 {
		return
	}
	ms := c.cfg.Retention.Milliseconds()
	retention := &job.Retention{CompletedMs: ms, DeadMs: ms, CancelledMs: ms}
	for {
		now := c.store.Head().GetSettings()
		if proto.Equal(now.GetRetention(), retention) {
			return
		}
		wanted := &state.Settings{Retention: retention, UnknownModel: now.GetUnknownModel()}
		_, _, err := Propose[*op.SetSettingsResult](ctx, c, &op.SetSettings{Meta: &op.Meta{Principal: "duty"}, Settings: wanted})
		if err == nil || ctx.Err() != nil {
			return
		}
		c.cfg.Logger.Warn("the namespace's settings cannot be set yet", "group", c.cfg.Group, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(settingsInterval):
		}
	}
}
