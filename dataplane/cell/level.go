package cell

import (
	"context"
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

// levelInterval is how often a leader asks whether all members know a higher
// feature level, as long as its own binary knows one that is not in force.
const levelInterval = 5 * time.Second

// raiseLevel raises the feature level once every member knows a higher one. Where
// the highest that this binary knows is in force it ends: an idle cell does
// nothing.
func (c *Cell) raiseLevel(ctx context.Context) {
	for c.Level() < op.FeatureLevel {
		if level, ok := c.known(); ok && level > c.Level() {
			_, _, err := Propose[*op.RaiseLevelResult](ctx, c, &op.RaiseLevel{Meta: &op.Meta{Principal: "duty"}, Level: level})
			if err != nil && ctx.Err() == nil {
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

// known is the highest level that all members know, this binary among them.
func (c *Cell) known() (level uint32, ok bool) {
	if c.cfg.Known == nil {
		return op.FeatureLevel, true
	}
	level, ok = c.cfg.Known()
	return min(level, op.FeatureLevel), ok
}
