package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// httpBuckets are in seconds. They reach from a response that needs no disk to the longest poll.
var httpBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// HTTP measures the requests of one server.
type HTTP struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
	unknown  *prometheus.CounterVec
}

// NewHTTP registers the metrics of HTTP servers in r, for one server.
func NewHTTP(r *Registry) *HTTP {
	h := &HTTP{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: HTTPRequests.Name, Help: HTTPRequests.Help}, HTTPRequests.Labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: HTTPDuration.Name, Help: HTTPDuration.Help, Buckets: httpBuckets}, HTTPDuration.Labels),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: HTTPInFlight.Name, Help: HTTPInFlight.Help}),
		panics:   prometheus.NewCounter(prometheus.CounterOpts{Name: HTTPPanics.Name, Help: HTTPPanics.Help}),
		unknown:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: UnknownFields.Name, Help: UnknownFields.Help}, UnknownFields.Labels),
	}
	r.prometheus.MustRegister(h.requests, h.duration, h.inFlight, h.panics, h.unknown)
	return h
}

// Route measures the requests to one route. Its labels are looked up once, not
// at every request, and a series appears with its first request.
type Route struct {
	http            *HTTP
	pattern, method string
	classes         [6]atomic.Pointer[prometheus.Counter] // by first digit of the status; 0 = no status
	duration        atomic.Pointer[prometheus.Observer]
}

// classNames are the values of the status label.
var classNames = [6]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// Route returns the measurement of a route. Pattern and method must come from a fixed set.
func (h *HTTP) Route(pattern, method string) *Route {
	return &Route{http: h, pattern: pattern, method: method}
}

// Begin counts a request as in flight. The caller must call End once for each Begin.
func (h *HTTP) Begin() { h.inFlight.Inc() }

// Panicked counts a panic.
func (h *HTTP) Panicked() { h.panics.Inc() }

// UnknownFields counts fields of a body that the route does not know and ignored.
func (r *Route) UnknownFields(n int) {
	if n > 0 {
		r.http.unknown.WithLabelValues(r.pattern).Add(float64(n))
	}
}

// End counts a request that ended with a status after the duration took. Status 0 means that the request
// ended without an answer.
func (r *Route) End(status int, took time.Duration) {
	r.http.inFlight.Dec()
	class := status / 100
	if class < 0 || class >= len(r.classes) {
		class = 5
	}
	counter := r.classes[class].Load()
	if counter == nil {
		c := r.http.requests.WithLabelValues(r.pattern, r.method, classNames[class])
		counter = &c
		r.classes[class].Store(counter)
	}
	(*counter).Inc()
	duration := r.duration.Load()
	if duration == nil {
		o := r.http.duration.WithLabelValues(r.pattern, r.method)
		duration = &o
		r.duration.Store(duration)
	}
	(*duration).Observe(took.Seconds())
}
