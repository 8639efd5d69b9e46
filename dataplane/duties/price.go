package duties

import (
	"context"
	"time"

	"github.com/corvo/corvo/api"
)

// seedRetry is the delay before the leader tries again if its shard does not take prices yet.
const seedRetry = 5 * time.Second

// seedPrices stores the shipped price book if the store has none or an older one.
func seedPrices(ctx context.Context, d *Duties) (int64, error) {
	book := d.cfg.Prices
	if book == nil || d.cfg.Store.Head().GetPriceBook() >= book.Version {
		return never, nil
	}
	err := d.cfg.Propose(ctx, book)
	if api.CodeOf(err) == api.Unsupported { // not every member knows the op yet
		return d.cfg.NowNs() + int64(seedRetry), nil
	}
	return never, err
}
