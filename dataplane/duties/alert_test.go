package duties

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// gauge supplies the values that a test's alert rules watch.
type gauge struct {
	value  atomic.Int64
	failed atomic.Pointer[error]
	asked  atomic.Int64
	lost   atomic.Uint32 // changes that SetAlerts reports as dropped
}

// inAlerted runs a test in inShard with one webhook, and a gauge that the rules watch.
func inAlerted(t *testing.T, test func(s *shard, g *gauge)) {
	t.Helper()
	g := &gauge{}
	var s *shard
	ids := byte(0)
	inShardOf(t, Config{
		FeedKeep: 1 << 40, UsageKeep: 1 << 40,
		Measure: func(context.Context, *state.AlertRule) (float64, error) {
			g.asked.Add(1)
			if err := g.failed.Load(); err != nil {
				return 0, *err
			}
			return float64(g.value.Load()), nil
		},
		SetAlerts: func(ctx context.Context, o *op.SetAlerts) (*op.SetAlertsResult, error) {
			s.mu.Lock()
			s.proposed = append(s.proposed, o)
			s.mu.Unlock()
			if refused := s.refuse.Load(); refused != nil {
				return nil, *refused
			}
			result, err := s.apply(o)
			if err != nil {
				return nil, err
			}
			answer := result.(*op.SetAlertsResult)
			answer.Dropped = g.lost.Load()
			return answer, nil
		},
		NewID: func() job.ID { ids++; return job.NewID(time.Now().UnixMilli(), "", job.Entropy{7: 1, 8: ids}) },
	}, func(of *shard) {
		s = of
		s.declare("h", &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK, Webhook: &state.Webhook{Url: "https://h/", Secret: "0123456789abcdef"}})
		test(s, g)
	})
}

// declare declares a resource as a server would.
func (s *shard) declare(name string, r *state.Resource) {
	s.t.Helper()
	s.ids++
	id := job.NewID(time.Now().UnixMilli(), "", job.Entropy{8: byte(s.ids)})
	r.Name, r.Shards = name, 1
	s.mustApply(&op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: r})
	s.duties.OnResources()
	synctest.Wait()
}

// rule declares a rule that fires above 10.
func (s *shard) rule(name string, held time.Duration) {
	s.t.Helper()
	s.declare(name, &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_ALERT_RULE, AlertRule: &state.AlertRule{
		Label: name, When: state.AlertSubject_ALERT_SUBJECT_QUEUE_DEPTH, Threshold: 10, ForMs: held.Milliseconds(), Notify: "h",
	}})
}

// told returns the events that are to be sent to the webhook, in order.
func (s *shard) told() (all []api.AlertEvent) {
	s.t.Helper()
	v := s.store.Snapshot()
	defer v.Close()
	for d, err := range v.Deliveries() {
		if err != nil {
			s.t.Fatal(err)
		}
		var e api.AlertEvent
		if err := json.Unmarshal(d.Body, &e); err != nil || e.Event != d.Event {
			s.t.Fatalf("%s: %s, %v", d.Event, d.Body, err)
		}
		all = append(all, e)
	}
	return all
}

func (s *shard) wantTold(want string) {
	s.t.Helper()
	got := ""
	for _, e := range s.told() {
		got += fmt.Sprintf("%s %s %v, ", e.Rule.ID, e.Event, e.Value)
	}
	if got != want {
		s.t.Errorf("told %q, want %q", got, want)
	}
}

func later(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestAnAlertFiresOnceAndResolvesOnce(t *testing.T) {
	inAlerted(t, func(s *shard, g *gauge) {
		later(time.Minute)
		if n := g.asked.Load(); n != 0 {
			t.Errorf("looked %d times without a rule", n)
		}
		s.rule("a", 0)
		quiet := s.proposals()
		later(time.Minute)
		if s.proposals() != quiet {
			t.Error("something is proposed where nothing changes")
		}
		g.value.Store(11)
		later(alertsEvery)
		at := time.Now()
		later(time.Minute)
		s.wantTold("a alert_fired 11, ")
		g.value.Store(12)
		later(time.Minute)
		g.value.Store(10)
		later(time.Minute)
		s.wantTold("a alert_fired 11, a alert_resolved 10, ")
		fired := s.told()[0]
		want := api.AlertWatch{ID: "a", Name: "a", When: "queue_depth", Op: ">", Threshold: 10, For: "0s"}
		if fired.Rule != want {
			t.Errorf("told of the rule %+v, want %+v", fired.Rule, want)
		}
		if fired.Threshold != 10 || !fired.Firing || fired.At != api.TimeOf(at) {
			t.Errorf("told %+v", fired)
		}
		if s.proposals() != quiet+2 {
			t.Errorf("%d proposals", s.proposals()-quiet)
		}
	})
}

func TestAnAlertWaitsForItsTime(t *testing.T) {
	inAlerted(t, func(s *shard, g *gauge) {
		s.rule("a", time.Minute)
		g.value.Store(11)
		later(50 * time.Second)
		g.value.Store(0) // before the rule's time is over
		later(alertsEvery)
		g.value.Store(11)
		later(58 * time.Second)
		s.wantTold("")
		later(2 * alertsEvery)
		s.wantTold("a alert_fired 11, ")

		// Another rule of the same name starts its time anew.
		s.rule("b", time.Minute)
		later(50 * time.Second)
		s.rule("b", time.Minute)
		later(50 * time.Second)
		s.wantTold("a alert_fired 11, ")
		later(12 * time.Second)
		s.wantTold("a alert_fired 11, b alert_fired 11, ")
	})
}

// A failed measurement and a refused proposal change nothing, and the duty evaluates the rule again.
func TestAnAlertOutlivesFailures(t *testing.T) {
	inAlerted(t, func(s *shard, g *gauge) {
		s.rule("a", 0)
		g.value.Store(11)
		later(alertsEvery)
		broken := fmt.Errorf("cannot be measured")
		g.failed.Store(&broken)
		g.value.Store(0)
		later(time.Minute)
		s.wantTold("a alert_fired 11, ")
		g.failed.Store(nil)
		refused := error(api.Errorf(api.LeaderUnavailable, "no leader"))
		s.refuse.Store(&refused)
		later(time.Minute)
		s.refuse.Store(nil)
		later(maxBackoff + alertsEvery)
		s.wantTold("a alert_fired 11, a alert_resolved 0, ")
	})
}

func TestDeliveriesAreForgottenAfterTheirTime(t *testing.T) {
	if testing.Short() {
		t.Skip("days of ticks, one after the other: the race detector has nothing to see")
	}
	inAlerted(t, func(s *shard, g *gauge) {
		s.rule("a", 0)
		g.value.Store(11)
		later(alertsEvery)
		v := s.store.Snapshot()
		for d := range v.Deliveries() {
			s.mustApply(&op.ReportDeliveries{Reports: []*op.DeliveryReport{{Id: d.Id, Attempt: 1, Delivered: true, Status: 200}}})
		}
		v.Close()
		s.mustApply(&op.DeleteResource{Kind: state.ResourceKind_RESOURCE_KIND_ALERT_RULE, Name: "a", Shards: 1})
		later(job.DeliveryKept - time.Second)
		s.wantTold("a alert_fired 11, ")
		later(2 * time.Second)
		s.wantTold("")
	})
}

func TestWhatIsNoNumberIsNotCompared(t *testing.T) {
	inAlerted(t, func(s *shard, g *gauge) {
		s.duties.cfg.Measure = func(context.Context, *state.AlertRule) (float64, error) { return math.Inf(1), nil }
		s.rule("a", 0)
		later(time.Minute)
		s.wantTold("")
	})
}

// The leader counts the alert changes that it could not deliver.
func TestDroppedAlertsAreCounted(t *testing.T) {
	inAlerted(t, func(s *shard, g *gauge) {
		s.rule("a", 0)
		for i, lost := range []uint32{1, 0, 2} {
			g.lost.Store(lost)
			g.value.Store(int64(20 * ((i + 1) % 2)))
			time.Sleep(alertsEvery)
			synctest.Wait()
		}
		if n := s.duties.AlertsDropped(); n != 3 {
			t.Errorf("%d were dropped, not 3", n)
		}
	})
}
