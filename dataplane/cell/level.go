package cell

import (
	"context"
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

// levelInterval is the interval at which a leader checks whether all members support a higher feature level,
// while its own binary supports one.
const levelInterval = 5 * time.Second

// raiseLevel raises the feature level once every member supports a higher one. It ends when the highest level
// of this binary is in force, so that an idle cell does nothing. raised gets a token after each rise.
func (c *Cell) raiseLevel(ctx context.Context, raised chan<- struct{}) {
	told := false
	for c.Level() < op.FeatureLevel {
		level, ok := c.knownLevel()
		if ok && level <= c.Level() && !told {
			c.cfg.Logger.Info("the feature level stays while a member runs an older binary", "group", c.cfg.Group, "feature_level", c.Level())
			told = true
		}
		if ok && level > c.Level() {
			_, _, err := Propose[*op.RaiseLevelResult](ctx, c, &op.RaiseLevel{Meta: &op.Meta{Principal: "duty"}, Level: level})
			if err == nil {
				c.cfg.Logger.Info("the feature level has risen, so that older binaries refuse the group's data", "group", c.cfg.Group, "feature_level", level)
				select {
				case raised <- struct{}{}:
				default: // a token is there already
				}
			} else if ctx.Err() == nil {
				c.cfg.Logger.Warn("the feature level cannot be raised yet", "group", c.cfg.Group, "level", level, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(levelInterval):
		}
	}
}

// knownLevel returns the highest level that all members, including this binary, support.
func (c *Cell) knownLevel() (level uint32, ok bool) {
	if c.cfg.Known == nil {
		return c.group.MembersLevel()
	}
	level, ok = c.cfg.Known()
	return min(level, op.FeatureLevel), ok
}
