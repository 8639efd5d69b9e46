package op

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A provider of models admits a limited number of requests and tokens a minute. Each shard has an equal share
// of them. A job whose attempt does not fit into its shard's share is parked, because the provider might
// refuse its requests. When a job is fetched, its attempt counts as one request and reserves the tokens that
// it is expected to use. Reported tokens move from the reservation to the window, and the end of the attempt
// releases the unused reservation. The request stays counted however the attempt ends, because the provider
// may have received it.
//
// The expected tokens of an attempt are a moving average over ended attempts. While a limited kind of token
// has no average yet, one attempt runs at a time, because several could together exceed the limit before the
// first report. One attempt runs at a time also if the share is below the expected tokens of one attempt,
// because such a share would otherwise admit no attempt at all.
//
// Input tokens are those read anew and those written to a cache, because providers limit both; tokens read
// from a cache are not limited.

// providerWindowMs is the window of a provider's limits.
const providerWindowMs = int64(time.Minute / time.Millisecond)

// averageOver is the number of attempts in the moving average.
const averageOver = 8

// checkProviderSpec checks a declared provider.
func checkProviderSpec(p *problems, o *PutResource) {
	r := o.GetResource()
	p.only(o, r.GetProvider() != nil)
	p.add("name", job.CheckProviderName(r.GetName()))
	for _, x := range [...]struct {
		field string
		limit uint64
	}{
		{"rpm_limit", r.GetProvider().GetRequests()},
		{"input_tpm_limit", r.GetProvider().GetInputTokens()},
		{"output_tpm_limit", r.GetProvider().GetOutputTokens()},
	} {
		switch {
		case x.limit > job.MaxTokensPerMinute:
			p.add(x.field, fmt.Errorf("is %d; at most %d are allowed, 0 is unlimited", x.limit, job.MaxTokensPerMinute))
		case x.limit > 0 && x.limit < uint64(r.GetShards()):
			p.add(x.field, fmt.Errorf("is %d; each of the namespace's %d shards needs a share of at least 1: raise it, or 0 for unlimited", x.limit, r.GetShards()))
		}
	}
}

// deletedProvider removes the traffic record of a deleted provider.
func deletedProvider(tx *state.Tx, was *state.Resource) error {
	return tx.PutTraffic([16]byte(was.Id), nil)
}

// providerOf returns the provider whose limits apply to a job's attempts: the job's, else its queue's. It
// returns nil if neither names a provider, or if the provider is not declared.
func providerOf(g DecisionState, j *job.Job) *state.Resource {
	name := cmp.Or(j.Options.GetProvider(), g.Queue(j.Queue).GetProvider())
	if name == "" {
		return nil
	}
	return g.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_PROVIDER, name)
}

// meter is one limited quantity of a provider.
type meter struct {
	what     string
	limit    uint64 // this shard's share; 0 = none
	window   *job.RateWindow
	reserved uint64 // by running attempts
	expected uint64 // of one attempt; 0 = unknown
}

// meters returns the limited quantities of a provider with its present traffic.
func meters(r *state.Resource, t *state.Traffic) [3]meter {
	share := func(limit uint64) uint64 { return limit / uint64(max(r.Shards, 1)) }
	p := r.GetProvider()
	return [...]meter{
		{"requests", share(p.GetRequests()), t.GetRequests(), 0, 1},
		{"input tokens", share(p.GetInputTokens()), t.GetInputTokens(), t.GetReservedInputTokens(), t.GetExpectedInputTokens()},
		{"output tokens", share(p.GetOutputTokens()), t.GetOutputTokens(), t.GetReservedOutputTokens(), t.GetExpectedOutputTokens()},
	}
}

// need returns the free amount that one attempt needs: the amount that it is expected to use, or the whole
// limit if the expectation is larger or unknown. Without a limit an unknown expectation counts as 0.
func (m meter) need() uint64 {
	if m.limit > 0 && (m.expected == 0 || m.expected > m.limit) {
		return m.limit
	}
	return m.expected
}

// freeAt returns the time at which one more attempt has room: nowNs if it has room now, or 0 if running
// attempts have reserved so much that their ends decide.
func (m meter) freeAt(nowNs int64) int64 {
	if m.limit == 0 {
		return nowNs
	}
	if m.reserved > m.limit-m.need() {
		return 0
	}
	return m.window.FallsTo(m.limit-m.need()-m.reserved, providerWindowMs, nowNs)
}

// checkProvider parks a job if one of its provider's limits has no room for another attempt.
func checkProvider(g DecisionState, j *job.Job) (Verdict, error) {
	r := providerOf(g, j)
	if r == nil {
		return Verdict{}, nil
	}
	t, err := g.Traffic([16]byte(r.Id))
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Do: Park, Reason: ReasonProvider, Name: r.Name, Gate: job.Gate_GATE_PROVIDER}
	nowNs, known := g.ClockNs(), true
	for _, m := range meters(r, t) {
		at := m.freeAt(nowNs)
		if at == nowNs {
			continue
		}
		if v.Text == "" {
			v.Text = m.text(r.Name, nowNs)
		}
		known = known && at != 0
		v.UntilNs = max(v.UntilNs, at)
	}
	if v.Text == "" {
		return Verdict{}, nil
	}
	if !known {
		v.UntilNs = 0
	}
	return v, nil
}

// text tells people which quantity is at its limit.
func (m meter) text(provider string, nowNs int64) string {
	had := m.window.Taken(providerWindowMs, nowNs)
	if m.reserved == 0 {
		return fmt.Sprintf("provider %q has had %d of %d %s a minute", provider, had, m.limit, m.what)
	}
	return fmt.Sprintf("provider %q has had %d of %d %s a minute, and running jobs are expected to use %d", provider, had, m.limit, m.what, m.reserved)
}

// takeRequest counts a beginning attempt as one request in t, reserves its expected tokens there, and returns
// the reserved amounts. The caller stores t.
func takeRequest(t *state.Traffic, r *state.Resource, nowNs int64) (input, output uint64) {
	all := meters(r, t)
	input, output = all[1].need(), all[2].need()
	if t.Requests == nil {
		t.Requests = &job.RateWindow{}
	}
	t.Requests.Take(providerWindowMs, nowNs)
	t.ReservedInputTokens += input
	t.ReservedOutputTokens += output
	return input, output
}

// reserveProvider counts the attempt with its job's provider and reserves its expected tokens.
func reserveProvider(tx *state.Tx, j *job.Job) error {
	r := providerOf(tx, j)
	if r == nil {
		return nil
	}
	id := [16]byte(r.Id)
	t, err := tx.Traffic(id)
	if err != nil {
		return err
	}
	if t == nil {
		t = &state.Traffic{Name: r.Name}
	}
	input, output := takeRequest(t, r, tx.ClockNs())
	c := reservation(j)
	c.Provider, c.ProviderId = r.Name, r.Id
	c.ReservedInputTokens, c.ReservedOutputTokens = int64(input), int64(output)
	return tx.PutTraffic(id, t)
}

// claimedFrom returns the provider that counts an attempt. It returns nil if none does, or if the provider
// was deleted together with its traffic.
func claimedFrom(tx *state.Tx, j *job.Job) *state.Resource {
	id := j.Lease.GetReservation().GetProviderId()
	if len(id) == 0 {
		return nil
	}
	return tx.ResourceIndex().ResourceByID([16]byte(id))
}

// countTokens counts the tokens of an attempt's new report with the attempt's provider and takes them out of
// the attempt's reservation.
func countTokens(tx *state.Tx, j *job.Job, reported *job.Usage) error {
	r := claimedFrom(tx, j)
	if r == nil {
		return nil
	}
	input := tokens(reported.InputTokens) + tokens(reported.CacheCreationTokens)
	output := tokens(reported.OutputTokens)
	if input == 0 && output == 0 {
		return nil
	}
	t, err := trafficOf(tx, r)
	if err != nil {
		return err
	}
	c := j.Lease.Reservation
	use(&t.InputTokens, &t.ReservedInputTokens, &c.ReservedInputTokens, &c.UsedInputTokens, input, tx.ClockNs())
	use(&t.OutputTokens, &t.ReservedOutputTokens, &c.ReservedOutputTokens, &c.UsedOutputTokens, output, tx.ClockNs())
	return tx.PutTraffic([16]byte(r.Id), t)
}

// tokens returns a reported count, limited to 32 bits, and 0 for a negative one. Every limit of a provider is
// lower, and sums of a few such counts do not overflow.
func tokens(n int64) uint64 { return uint64(min(max(n, 0), math.MaxUint32)) }

// use counts n reported tokens in the window and in the attempt's sum (used), and takes up to n out of the
// reservation.
func use(window **job.RateWindow, reserved *uint64, own *int64, used *uint64, n uint64, nowNs int64) {
	if n == 0 {
		return
	}
	if *window == nil {
		*window = &job.RateWindow{}
	}
	(*window).TakeN(n, providerWindowMs, nowNs)
	*used = min(*used+n, math.MaxUint32)
	giveBackTokens(reserved, own, n)
}

// giveBackTokens takes up to n tokens out of an attempt's reservation (own) and out of the shard's sum
// (reserved).
func giveBackTokens(reserved *uint64, own *int64, n uint64) {
	n = min(n, uint64(*own))
	*own -= int64(n)
	*reserved -= min(n, *reserved)
}

// trafficOf returns the traffic of an attempt's provider. A missing record is an error, because the attempt
// is counted there.
func trafficOf(tx *state.Tx, r *state.Resource) (*state.Traffic, error) {
	t, err := tx.Traffic([16]byte(r.Id))
	if err == nil && t == nil {
		err = fmt.Errorf("an attempt has claimed from provider %q, which has no traffic", r.Name)
	}
	return t, err
}

// releaseProvider releases the tokens that the ended attempt still reserves. It adds the attempt to the moving
// averages if the attempt was acked or has reported tokens.
func releaseProvider(tx *state.Tx, j *job.Job, acked bool) error {
	r := claimedFrom(tx, j)
	if r == nil {
		return nil
	}
	t, err := trafficOf(tx, r)
	if err != nil {
		return err
	}
	c := j.Lease.Reservation
	giveBackTokens(&t.ReservedInputTokens, &c.ReservedInputTokens, math.MaxUint64)
	giveBackTokens(&t.ReservedOutputTokens, &c.ReservedOutputTokens, math.MaxUint64)
	if acked || c.UsedInputTokens > 0 || c.UsedOutputTokens > 0 {
		t.ExpectedInputTokens = average(t.ExpectedInputTokens, c.UsedInputTokens)
		t.ExpectedOutputTokens = average(t.ExpectedOutputTokens, c.UsedOutputTokens)
	}
	return tx.PutTraffic([16]byte(r.Id), t)
}

// average adds one attempt to a moving average. The result is never 0, because 0 means unknown. If workers
// complete jobs and report no tokens, an attempt is expected to use hardly any.
func average(expected, used uint64) uint64 {
	switch {
	case expected == 0:
		return max(used, 1)
	case used > expected:
		return expected + (used-expected+averageOver-1)/averageOver
	}
	return max(expected-(expected-used)/averageOver, 1)
}

// ProviderTraffic is one shard's traffic to a provider: the counts of the last minute, the tokens that
// running attempts reserve, and the waiting jobs.
type ProviderTraffic struct {
	Requests, InputTokens, OutputTokens       uint64
	ReservedInputTokens, ReservedOutputTokens uint64
	Waiting                                   uint64 // jobs parked because of the provider's limits
}

// TrafficTo returns this shard's traffic to a provider, all zero if the shard has had none.
func TrafficTo(s *state.Store, r *state.Resource, nowNs int64) (ProviderTraffic, error) {
	t, err := s.Traffic([16]byte(r.Id))
	if err != nil {
		return ProviderTraffic{}, err
	}
	all := meters(r, t)
	out := ProviderTraffic{
		Requests:            all[0].window.Taken(providerWindowMs, nowNs),
		InputTokens:         all[1].window.Taken(providerWindowMs, nowNs),
		OutputTokens:        all[2].window.Taken(providerWindowMs, nowNs),
		ReservedInputTokens: all[1].reserved, ReservedOutputTokens: all[2].reserved,
	}
	for _, g := range s.Gates() {
		if g.Kind == job.Gate_GATE_PROVIDER && g.Name == r.Name {
			out.Waiting = g.Jobs
		}
	}
	return out, nil
}
