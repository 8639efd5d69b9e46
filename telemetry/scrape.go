package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Scrape takes the figures of one answer to whoever asks for metrics.
type Scrape struct {
	descs map[string]*prometheus.Desc
	out   chan<- prometheus.Metric
}

// Gauge says a figure as it is now, label values in the order of m.Labels.
func (s *Scrape) Gauge(m Metric, value float64, labels ...string) {
	s.emit(m, func(desc *prometheus.Desc) (prometheus.Metric, error) {
		return prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	})
}

// Counter says a figure that only grows, from 0 at the start of the process.
func (s *Scrape) Counter(m Metric, value float64, labels ...string) {
	s.emit(m, func(desc *prometheus.Desc) (prometheus.Metric, error) {
		return prometheus.NewConstMetric(desc, prometheus.CounterValue, value, labels...)
	})
}

// Histogram says a distribution: how many values there are, their sum, and for
// each upper bound how many do not exceed it.
func (s *Scrape) Histogram(m Metric, count uint64, sum float64, upTo map[float64]uint64, labels ...string) {
	s.emit(m, func(desc *prometheus.Desc) (prometheus.Metric, error) {
		return prometheus.NewConstHistogram(desc, count, sum, upTo, labels...)
	})
}

// emit hands a figure over. A mistake shows in the answer, not as a figure that
// is silently missing.
func (s *Scrape) emit(m Metric, figure func(*prometheus.Desc) (prometheus.Metric, error)) {
	desc, ok := s.descs[m.Name]
	if !ok {
		err := fmt.Errorf("metric %q was not announced", m.Name)
		s.out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	metric, err := figure(desc)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	s.out <- metric
}

// Bool is 1 for true, as a figure.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
