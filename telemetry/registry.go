package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry holds the metrics of one process. Registering a name twice panics:
// it is a mistake in the program.
type Registry struct {
	prometheus *prometheus.Registry
}

// NewEmptyRegistry is a registry that holds nothing yet: for figures that are shown
// to others than those who run the process.
func NewEmptyRegistry() *Registry { return &Registry{prometheus: prometheus.NewRegistry()} }

// NewRegistry is a registry that holds the Go runtime's and the process's
// metrics.
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

// Collect publishes metrics whose figures are kept elsewhere: read is called
// whenever metrics are asked for, possibly by several goroutines, and says each
// figure at most once. A metric it leaves out is absent from that answer. What is
// not one of metrics, or has labels of another number, makes the answer an error.
func (r *Registry) Collect(read func(*Scrape), metrics ...Metric) {
	c := &collector{read: read, descs: make(map[string]*prometheus.Desc, len(metrics))}
	for _, m := range metrics {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	r.prometheus.MustRegister(c)
}

// collector is metrics that are read together when they are asked for.
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
