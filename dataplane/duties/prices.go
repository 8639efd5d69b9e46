package duties

import (
	"context"
	"time"

	"github.com/corvo/corvo/api"
)

// seedRetry is how long a leader waits whose shard does not take prices yet.
const seedRetry = 5 * time.Second

// seedPrices stores the shipped price book where the store has an older one, or none.
func seedPrices(ctx context.Context, d *Duties) (int64, error) {
	book := d.cfg.Prices
	if book == nil || d.cfg.Store.Head().GetPriceBook() >= book.Version {
		return never, nil
	}
	err := d.cfg.Propose(ctx, book)
	if api.CodeOf(err) == api.Unsupported { // until every member knows the op
		return d.cfg.NowNs() + int64(seedRetry), nil
	}
	return never, err
}
