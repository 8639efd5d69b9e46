package server

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// metricsPath and scrapePath serve the metrics; the second is Prometheus's default metrics_path.
const (
	metricsPath = "/api/v1/metrics"
	scrapePath  = "/metrics"
)

// MaxQueueSeries is the largest number of queues with metrics of their own. The oldest queues have them, so
// that a queue keeps its series when others are created, and a namespace with thousands of queues costs its
// Prometheus no more than this. The other queues are summed under everyOther.
const MaxQueueSeries = 200

// everyOther is the label for all queues or shards without series of their own. No queue or shard can have
// this name.
const everyOther = "*"

// queueStates are the states that each queue has a metric for: jobs that wait, that run, and that need a
// person.
var queueStates = []job.State{job.Pending, job.Active, job.Dead}

// measured lists the metrics of a Server, besides the HTTP metrics.
var measured = []telemetry.Metric{
	telemetry.Healthy, telemetry.CertificateRemaining,
	telemetry.RaftLeader, telemetry.RaftTerm, telemetry.RaftAppliedIndex, telemetry.RaftSnapshotIndex, telemetry.RaftLogBytes,
	telemetry.RaftSyncs, telemetry.RaftEntries, telemetry.RaftEntryBytes, telemetry.RaftSnapshots, telemetry.PipelineOps, telemetry.PipelineForwards,
	telemetry.DiskFreeBytes, telemetry.FeedEvents, telemetry.IdempotencyRecords,
	telemetry.PipelineBacklogOps, telemetry.PipelineBacklogBytes, telemetry.PipelineQueueTime, telemetry.PipelineApplyTime,
	telemetry.AlertsDropped, telemetry.WebhookEventsLost, telemetry.UsageReportsRejected, telemetry.UsageStuck, telemetry.OverloadsRefused, telemetry.PollsParked, telemetry.EmptyFetches, telemetry.EventStreams,
	telemetry.EventsEncoded, telemetry.EventsSent, telemetry.EventsSentBytes, telemetry.EventStreamResets, telemetry.WorkerStreams,
	telemetry.ViewLagEvents, telemetry.ViewLagSeconds, telemetry.ViewBuilding,
	telemetry.Queues, telemetry.QueueJobs, telemetry.QueuePaused, telemetry.JobsTotal,
}

// metrics answers in the Prometheus text format.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.cloud() {
		s.namespaceMetrics(serve.Principal(r.Context()).Namespace).ServeHTTP(w, r)
		return nil
	}
	s.cfg.Metrics.Handler().ServeHTTP(w, r)
	return nil
}

// namespaceMetrics serves the metrics of one namespace. It leaves out the metrics of the process, of HTTP and
// of the disk, because they count the work of other namespaces.
func (s *Server) namespaceMetrics(ns tenancy.NamespaceID) http.Handler {
	one := telemetry.NewEmptyRegistry()
	one.Collect(func(to *telemetry.Scrape) { s.measureNamespace(to, ns) }, measured...)
	return one.Handler()
}

// OperatorMetrics serves the metrics of the whole process. Bind it to an address that no tenant can reach.
func (s *Server) OperatorMetrics() http.Handler { return s.cfg.Metrics.Handler() }

// measure collects the node's metrics. It runs only when they are requested. A node counts as not healthy if
// a cell is not sound or if a value other than the free disk space cannot be read. A host leaves out values
// that cannot be read, and counts as not healthy only if a cell is not sound.
func (s *Server) measure(to *telemetry.Scrape) {
	to.Counter(telemetry.EmptyFetches, float64(s.emptyFetches.Load()))
	if s.cloud() {
		if held := s.cfg.Certificate; held != nil {
			to.Gauge(telemetry.CertificateRemaining, held.Remaining().Seconds())
		}
		s.measureHost(to)
		return
	}
	s.measureNamespace(to, s.cfg.Namespace)
}

// measureHost collects the sums of a host's cells. It names no cell, because there may be thousands, and they
// come and go.
func (s *Server) measureHost(to *telemetry.Scrape) {
	var parked, ops, bytes, dropped, stuck, rejected, slowed, behind float64
	free, freeErr := int64(0), errors.ErrUnsupported
	for _, ns := range s.cfg.Host.Namespaces() {
		cells, err := s.cfg.Host.Cells(ns)
		if err != nil {
			continue // closed in the meantime
		}
		if polls, err := s.cfg.Host.Polls(ns); err == nil {
			parked += float64(polls.Parked)
		}
		for _, c := range cells {
			if status, err := c.Status(); err == nil {
				ops, bytes = ops+float64(status.Engine.BacklogOps), bytes+float64(status.Engine.BacklogBytes)
				dropped, slowed = dropped+float64(status.AlertsDropped), slowed+float64(status.ViewSlowed)
				rejected += float64(status.UsageRejected)
				stuck += telemetry.Bool(status.UsageErr != nil)
				behind = max(behind, status.ViewBehind.Seconds())
			}
		}
		if freeErr != nil { // all cells lie on one disk
			free, freeErr = cells[0].FreeDisk()
		}
	}
	s.measureBudgets(to)
	to.Counter(telemetry.AlertsDropped, dropped)
	to.Counter(telemetry.UsageReportsRejected, rejected, everyOther)
	to.Gauge(telemetry.UsageStuck, stuck)
	to.Counter(telemetry.OverloadsRefused, slowed, "view")
	to.Gauge(telemetry.ViewLagSeconds, behind, everyOther) // the largest lag
	to.Gauge(telemetry.PollsParked, parked)
	to.Gauge(telemetry.EventStreams, float64(s.cfg.Host.Streams()))
	to.Gauge(telemetry.PipelineBacklogOps, ops, everyOther)
	to.Gauge(telemetry.PipelineBacklogBytes, bytes, everyOther)
	if freeErr == nil {
		to.Gauge(telemetry.DiskFreeBytes, float64(free))
	}
	err := s.soundCells()
	if err != nil {
		s.cfg.Logger.Error("unhealthy", "error", err)
	}
	to.Gauge(telemetry.Healthy, telemetry.Bool(err == nil))
}

func (s *Server) measureNamespace(to *telemetry.Scrape, ns tenancy.NamespaceID) {
	cells, err := s.cfg.Host.Cells(ns)
	if err == nil {
		err = s.measureCells(to, ns, cells)
	}
	if err != nil {
		s.cfg.Logger.Error("the node serves incomplete metrics", "error", err)
	}
	to.Gauge(telemetry.Healthy, telemetry.Bool(err == nil && sound(cells) == nil))
}

func (s *Server) measureCells(to *telemetry.Scrape, ns tenancy.NamespaceID, cells []*cell.Cell) error {
	var refused, dropped, slowed uint64
	for _, c := range cells {
		status, err := c.Status()
		if err != nil {
			return err
		}
		measureCell(to, c, &status)
		refused += status.Engine.Refused
		dropped += status.AlertsDropped
		slowed += status.ViewSlowed
	}
	if free, err := cells[0].FreeDisk(); err == nil && !s.cloud() { // if the free space is unknown, /readyz reports it
		to.Gauge(telemetry.DiskFreeBytes, float64(free))
	}
	polls, err := s.cfg.Host.Polls(ns)
	if err != nil {
		return err
	}
	followers, err := s.cfg.Host.Followers(ns)
	if err != nil {
		return err
	}
	to.Gauge(telemetry.PollsParked, float64(polls.Parked))
	to.Gauge(telemetry.EventStreams, float64(followers))
	to.Counter(telemetry.AlertsDropped, float64(dropped))
	to.Counter(telemetry.OverloadsRefused, float64(refused), "backlog")
	to.Counter(telemetry.OverloadsRefused, float64(polls.Refused), "polls")
	to.Counter(telemetry.OverloadsRefused, float64(slowed), "view")
	if !s.cloud() { // in the cloud all namespaces share them
		s.measureBudgets(to)
	}
	return s.measureQueues(to, ns, cells)
}

// measureBudgets collects the refusals for lack of room in the process, the number of worker streams and the
// work of event streams.
func (s *Server) measureBudgets(to *telemetry.Scrape) {
	to.Counter(telemetry.OverloadsRefused, float64(s.bodies.refused.Load()), "bodies")
	to.Counter(telemetry.OverloadsRefused, float64(s.searches.refused.Load()), "searches")
	to.Gauge(telemetry.WorkerStreams, float64(s.streams.used.Load()))
	to.Counter(telemetry.EventsEncoded, float64(s.eventCounts.encoded.Load()))
	to.Counter(telemetry.EventsSent, float64(s.eventCounts.sent.Load()))
	to.Counter(telemetry.EventsSentBytes, float64(s.eventCounts.bytes.Load()))
	to.Counter(telemetry.EventStreamResets, float64(s.eventCounts.resets.Load()))
}

func measureCell(to *telemetry.Scrape, c *cell.Cell, status *cell.Status) {
	e, shard := &status.Engine, strconv.FormatUint(uint64(c.Shard()), 10)
	to.Gauge(telemetry.RaftLeader, telemetry.Bool(c.Leader()), shard)
	to.Gauge(telemetry.RaftTerm, float64(e.Term), shard)
	to.Gauge(telemetry.RaftAppliedIndex, float64(e.Applied.Index), shard)
	to.Gauge(telemetry.RaftSnapshotIndex, float64(e.Snapshot), shard)
	to.Gauge(telemetry.RaftLogBytes, float64(e.LogBytes), shard)
	to.Counter(telemetry.RaftSyncs, float64(e.Appends), shard)
	to.Counter(telemetry.RaftEntries, float64(e.Entries), shard)
	to.Counter(telemetry.RaftEntryBytes, float64(e.EntryBytes), shard)
	to.Counter(telemetry.RaftSnapshots, float64(e.Snapshots), shard)
	to.Counter(telemetry.PipelineOps, float64(e.QueueTime.Count()), shard)
	to.Counter(telemetry.PipelineForwards, float64(e.Forwarded), shard)
	to.Gauge(telemetry.FeedEvents, float64(status.FeedEvents), shard)
	to.Gauge(telemetry.IdempotencyRecords, float64(status.IdempotencyRecords), shard)
	to.Counter(telemetry.WebhookEventsLost, float64(status.WebhookEventsLost), shard)
	to.Counter(telemetry.UsageReportsRejected, float64(status.UsageRejected), shard)
	to.Gauge(telemetry.PipelineBacklogOps, float64(e.BacklogOps), shard)
	to.Gauge(telemetry.PipelineBacklogBytes, float64(e.BacklogBytes), shard)
	histogram(to, telemetry.PipelineQueueTime, &e.QueueTime, shard)
	histogram(to, telemetry.PipelineApplyTime, &e.ApplyTime, shard)
	to.Gauge(telemetry.ViewLagEvents, float64(status.ViewLag), shard)
	to.Gauge(telemetry.ViewLagSeconds, status.ViewBehind.Seconds(), shard)
	to.Gauge(telemetry.ViewBuilding, telemetry.Bool(status.ViewBuilding), shard)
}

// histogram reports a distribution in seconds.
func histogram(to *telemetry.Scrape, m telemetry.Metric, d *pipeline.Distribution, labels ...string) {
	upTo := make(map[float64]uint64, pipeline.Buckets)
	var count uint64
	for i, n := range d.Counts {
		count += n
		if i < pipeline.Buckets-1 {
			upTo[pipeline.BucketBound(i).Seconds()] = count
		}
	}
	to.Histogram(m, count, d.Sum.Seconds(), upTo, labels...)
}

func (s *Server) measureQueues(to *telemetry.Scrape, ns tenancy.NamespaceID, cells []*cell.Cell) error {
	all, err := queuesByAge(cells)
	if err != nil {
		return err
	}
	to.Gauge(telemetry.Queues, float64(len(all)))
	own := all[:min(len(all), MaxQueueSeries)]
	for _, q := range own {
		for _, in := range queueStates {
			to.Gauge(telemetry.QueueJobs, float64(q.InState[in]), q.Name, in.Word())
		}
		to.Gauge(telemetry.QueuePaused, telemetry.Bool(q.Paused), q.Name)
		writeTotals(to, totalsOf(q), q.Name)
	}
	s.jobTotals.keep(func(of tenancy.NamespaceID) bool { _, err := s.cfg.Host.Cells(of); return err == nil })
	if others, found := s.jobTotals.add(ns, all[len(own):]); found {
		writeTotals(to, others, everyOther)
	}
	if len(own) == len(all) {
		return nil
	}
	var paused float64
	jobs := make([]float64, len(queueStates))
	for _, q := range all[len(own):] {
		for i, in := range queueStates {
			jobs[i] += float64(q.InState[in])
		}
		paused += telemetry.Bool(q.Paused)
	}
	for i, in := range queueStates {
		to.Gauge(telemetry.QueueJobs, jobs[i], everyOther, in.Word())
	}
	to.Gauge(telemetry.QueuePaused, paused, everyOther)
	return nil
}

// queuesByAge returns all queues, the oldest first.
func queuesByAge(cells []*cell.Cell) (all []*state.Queue, err error) {
	for _, c := range cells {
		if all, err = appendQueues(all, c.State()); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b *state.Queue) int {
		return cmp.Or(cmp.Compare(a.CreatedNs, b.CreatedNs), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

func appendQueues(all []*state.Queue, store *state.Store) (_ []*state.Queue, err error) {
	snapshot := store.Snapshot()
	defer func() {
		if closed := snapshot.Close(); err == nil {
			err = closed
		}
	}()
	for q, err := range snapshot.Queues() {
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}
