package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/corvo/corvo/api"
)

// SummaryQuery is which usage is summed, and by what; the zero value is that of the last
// day, in one sum.
type SummaryQuery struct {
	Period   api.Duration // how far back; default 24h
	From, To api.Time     // instead of Period: the first moment, and the first after it; default now
	GroupBy  string       // queue, model, provider, day or tag:NAME
	Timezone string       // whose days; default UTC
}

// UsageSummary sums what workers have reported, and what it has cost.
func (c *Client) UsageSummary(ctx context.Context, of SummaryQuery, r Read) (api.UsageSummary, error) {
	q := url.Values{}
	for _, p := range [...]struct{ name, value string }{
		{"period", string(of.Period)}, {"from", string(of.From)}, {"to", string(of.To)}, {"group_by", of.GroupBy}, {"timezone", of.Timezone},
	} {
		if p.value != "" {
			q.Set(p.name, p.value)
		}
	}
	var out api.UsageSummary
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/usage/summary" + r.with(q), out: &out, repeat: repeatAlways})
	return out, err
}
