package telemetry

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, r *Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape answers %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	have := strings.Split(text, "\n")
	for _, line := range lines {
		if !slices.Contains(have, line) {
			t.Errorf("no line %q", line)
		}
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	h := NewHTTP(r)
	jobs := h.Route("/api/v1/jobs/{id}", "GET")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				h.Begin()
				jobs.End(200, 3*time.Millisecond)
			}
		})
	}
	all.Wait()
	for _, status := range []int{204, 404, 500, 503, 0} {
		h.Begin()
		jobs.End(status, 2*time.Second)
	}
	h.Begin() // still going
	h.Panicked()
	text := scrape(t, r)
	route := `route="/api/v1/jobs/{id}"`
	wantLines(t, text,
		`corvo_http_requests_total{method="GET",`+route+`,status="2xx"} 801`,
		`corvo_http_requests_total{method="GET",`+route+`,status="4xx"} 1`,
		`corvo_http_requests_total{method="GET",`+route+`,status="5xx"} 2`,
		`corvo_http_requests_total{method="GET",`+route+`,status="none"} 1`,
		`corvo_http_request_duration_seconds_count{method="GET",`+route+`} 805`,
		`corvo_http_request_duration_seconds_bucket{method="GET",`+route+`,le="0.005"} 800`,
		`corvo_http_requests_in_flight 1`,
		`corvo_http_panics_total 1`,
	)
	if !strings.Contains(text, "go_goroutines") || !strings.Contains(text, "process_cpu_seconds_total") {
		t.Error("the runtime's metrics are missing")
	}
}

// TestStatusIsBounded counts statuses that no server should send.
func TestStatusIsBounded(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	route := NewHTTP(r).Route("/", "GET")
	for _, status := range []int{-100, 600, 1 << 40} {
		route.End(status, 0)
	}
	wantLines(t, scrape(t, r), `corvo_http_requests_total{method="GET",route="/",status="5xx"} 3`)
}

func TestFigures(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	depth := Metric{Name: "t_depth", Help: "h"}
	done := Metric{Name: "t_done_total", Help: "h"}
	jobs := Metric{Name: "t_jobs", Help: "h", Labels: []string{"state"}}
	took := Metric{Name: "t_took_seconds", Help: "h"}
	absent := Metric{Name: "t_absent", Help: "h"}
	now := 3.0
	r.Collect(func(s *Scrape) {
		s.Gauge(depth, now)
		s.Counter(done, 4)
		s.Gauge(jobs, 5, "pending")
		s.Gauge(jobs, Bool(true), "active")
		s.Gauge(jobs, Bool(false), "dead")
		s.Histogram(took, 7, 2.5, map[float64]uint64{.5: 2, 1: 6})
	}, depth, done, jobs, took, absent)
	text := scrape(t, r)
	wantLines(t, text,
		"t_depth 3",
		"# TYPE t_depth gauge",
		"# TYPE t_done_total counter",
		"t_done_total 4",
		`t_jobs{state="pending"} 5`,
		`t_jobs{state="active"} 1`,
		`t_jobs{state="dead"} 0`,
		"# TYPE t_took_seconds histogram",
		`t_took_seconds_bucket{le="0.5"} 2`,
		`t_took_seconds_bucket{le="1"} 6`,
		`t_took_seconds_bucket{le="+Inf"} 7`,
		"t_took_seconds_sum 2.5",
		"t_took_seconds_count 7",
	)
	if strings.Contains(text, "t_absent") {
		t.Error("a metric nobody gave a figure has one")
	}
	now = 8
	wantLines(t, scrape(t, r), "t_depth 8")
}

// TestMistakesShow checks that a figure that cannot be published fails the scrape.
func TestMistakesShow(t *testing.T) {
	t.Parallel()
	jobs := Metric{Name: "t_jobs", Help: "h", Labels: []string{"state"}}
	for name, read := range map[string]func(*Scrape){
		"too few labels": func(s *Scrape) { s.Gauge(jobs, 1) },
		"not announced":  func(s *Scrape) { s.Gauge(Metric{Name: "t_other", Help: "h"}, 1) },
		"said twice":     func(s *Scrape) { s.Gauge(jobs, 1, "dead"); s.Gauge(jobs, 2, "dead") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRegistry()
			r.Collect(read, jobs)
			w := httptest.NewRecorder()
			r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			if w.Code != 500 {
				t.Errorf("scrape answers %d", w.Code)
			}
		})
	}
}

func TestTwiceTheSameNamePanics(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	NewHTTP(r)
	defer func() {
		if recover() == nil {
			t.Error("a second registration passes")
		}
	}()
	NewHTTP(r)
}

// TestNames compares the metrics with the golden file. It reads them from the source,
// so that no metric can be left out.
func TestNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "metric_names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || fmt.Sprint(literal.Type) != "Metric" {
			return true
		}
		var name, help string
		var labels []string
		for _, element := range literal.Elts {
			member := element.(*ast.KeyValueExpr)
			switch fmt.Sprint(member.Key) {
			case "Name":
				name = text(t, member.Value)
			case "Help":
				help = text(t, member.Value)
			case "Labels":
				for _, label := range member.Value.(*ast.CompositeLit).Elts {
					labels = append(labels, text(t, label))
				}
			}
		}
		if !strings.HasPrefix(name, "corvo_") || !strings.HasSuffix(help, ".") {
			t.Errorf("metric %q: its name begins with corvo_, its help is a sentence", name)
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %s\n", name, strings.Join(labels, ","), help))
		return true
	})
	slices.Sort(lines)
	if got := len(slices.Compact(slices.Clone(lines))); got != len(lines) || got == 0 {
		t.Errorf("%d metrics have %d names", len(lines), got)
	}
	got := []byte(strings.Join(lines, ""))
	const golden = "testdata/metrics.golden"
	if *rewrite {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the metrics changed; -rewrite if that is meant:\n%s", got)
	}
}

// text returns the value of a string literal.
func text(t *testing.T, e ast.Expr) string {
	t.Helper()
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		t.Fatalf("metric_names.go holds something else than literals: %v", e)
	}
	s, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
