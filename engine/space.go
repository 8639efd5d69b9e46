package engine

import (
	"errors"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
)

// StartSpace is the free space, in bytes, that a start needs: room for a segment of the log and for what the
// store writes while it opens.
const StartSpace = 32 << 20

// CheckSpace refuses a start in dir with UNHEALTHY if the disk has less than StartSpace free, because a store
// that is opened on a full disk retries its writes for ever. It returns nil where the free space is not
// known.
func CheckSpace(dir string) error {
	switch free, err := durable.FreeSpace(dir); {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return err
	case free < StartSpace:
		return api.Errorf(api.Unhealthy, "%w: %s free under %s, a start needs %s; make room and start again", durable.ErrFull, durable.MiB(free), dir, durable.MiB(StartSpace))
	}
	return nil
}
