package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Scrape collects the figures of one scrape.
type Scrape struct {
	descs map[string]*prometheus.Desc
	out   chan<- prometheus.Metric
}

// Gauge reports a current figure, with label values in the order of m.Labels.
func (s *Scrape) Gauge(m Metric, value float64, labels ...string) {
	s.emit(m, func(desc *prometheus.Desc) (prometheus.Metric, error) {
		return prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	})
}

// Counter reports a figure that only grows, with label values in the order of m.Labels.
func (s *Scrape) Counter(m Metric, value float64, labels ...string) {
	s.emit(m, func(desc *prometheus.Desc) (prometheus.Metric, error) {
		return prometheus.NewConstMetric(desc, prometheus.CounterValue, value, labels...)
	})
}

// Histogram reports a distribution: the number of values, their sum, and for each upper
// bound the number of values at or below it.
func (s *Scrape) Histogram(m Metric, count uint64, sum float64, upTo map[float64]uint64, labels ...string) {
	s.emit(m, func(desc *prometheus.Desc) (prometheus.Metric, error) {
		return prometheus.NewConstHistogram(desc, count, sum, upTo, labels...)
	})
}

// emit hands a figure to the scrape. A mistake fails the scrape, because a figure that
// is silently missing would go unnoticed.
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

// Bool converts a bool to a figure: 1 for true, 0 for false.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
