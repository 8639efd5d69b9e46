package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/corvo/corvo/api"
)

// SummaryQuery selects and groups usage. The zero value is the last 24 hours without groups.
type SummaryQuery struct {
	Period   api.Duration // length of the range up to To; default 24h, at most 9600h
	From, To api.Time     // From is inclusive and goes without Period; To is exclusive, default now
	GroupBy  string       // queue, model, provider, day or tag:NAME
	Timezone string       // time zone of days; default UTC
}

// UsageSummary sums the reported usage and its cost.
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
