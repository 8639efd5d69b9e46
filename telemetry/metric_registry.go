package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry holds the metrics of one process. Registering a name twice panics, because
// it is a programming error.
type Registry struct {
	prometheus *prometheus.Registry
}

// NewEmptyRegistry makes a registry without metrics, for figures that are shown to
// tenants and not to the operator of the process.
func NewEmptyRegistry() *Registry { return &Registry{prometheus: prometheus.NewRegistry()} }

// NewRegistry makes a registry with the metrics of the Go runtime and the process.
func NewRegistry() *Registry {
	r := NewEmptyRegistry()
	r.prometheus.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// Handler serves the metrics in the Prometheus text format.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.prometheus, promhttp.HandlerOpts{Registry: r.prometheus})
}

// Collect publishes metrics whose figures another package keeps. Every scrape calls
// read, possibly from several goroutines, and read reports each figure at most once. A
// metric that read leaves out is absent from the scrape. A metric that is not in
// metrics, or that has the wrong number of labels, fails the scrape.
func (r *Registry) Collect(read func(*Scrape), metrics ...Metric) {
	c := &collector{read: read, descs: make(map[string]*prometheus.Desc, len(metrics))}
	for _, m := range metrics {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	r.prometheus.MustRegister(c)
}

// collector reads several metrics together at each scrape.
type collector struct {
	descs map[string]*prometheus.Desc
	read  func(*Scrape)
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		out <- desc
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.read(&Scrape{descs: c.descs, out: out})
}
