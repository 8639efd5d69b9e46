package cell

import (
	"context"
	"time"

	"github.com/corvo/corvo/dataplane/op"
)

// levelAgain is the time after which a leader looks again at a level whose rise it may have missed.
const levelAgain = 5 * time.Second

// raiseLevel raises the feature level once every member knows a higher one. raised gets a token after each rise.
func (c *Cell) raiseLevel(ctx context.Context, raised chan<- struct{}) {
	c.group.RaiseLevel(ctx, c.cfg.Known, func(ctx context.Context, level uint32) error {
		_, _, err := Propose[*op.RaiseLevelResult](ctx, c, &op.RaiseLevel{Meta: &op.Meta{Principal: "duty"}, Level: level})
		if err == nil {
			c.duties.OnLevel()
			select {
			case raised <- struct{}{}:
			default: // a token is there already
			}
		}
		return err
	})
}
