package engine

import (
	"context"
	"time"
)

// levelInterval is the interval at which a leader checks whether all members know a higher feature level, while its
// own binary knows one.
const levelInterval = 5 * time.Second

// RaiseLevel calls raise with a higher feature level once every member knows it (ADR 0017). It ends when Config.MaxLevel
// is in force, so that an idle group does nothing, or when ctx ends. known returns the highest level that all members
// know; nil = the members' answers to this leader. raise proposes the op that raises the level; RaiseLevel tries again
// after its error.
func (g *Group) RaiseLevel(ctx context.Context, known func() (level uint32, ok bool), raise func(ctx context.Context, level uint32) error) {
	if known == nil {
		known = g.MembersLevel
	}
	log := g.config.Logger.With("group", g.identity.Group)
	told := false
	for g.config.Level() < g.config.MaxLevel {
		present := g.config.Level()
		level, ok := known()
		level = min(level, g.config.MaxLevel)
		switch {
		case !ok:
		case level > present:
			if err := raise(ctx, level); err == nil {
				log.Info("the feature level has risen, so that older binaries refuse the group's data", "feature_level", level)
			} else if ctx.Err() == nil {
				log.Warn("the feature level cannot be raised yet", "level", level, "error", err)
			}
		case !told:
			log.Info("the feature level stays while a member runs an older binary", "feature_level", present)
			told = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(levelInterval):
		}
	}
}
