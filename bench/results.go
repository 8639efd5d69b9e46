package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// results has the outcomes of all rounds, by system and row.
type results map[string]map[row][]outcome

func (all results) add(name string, r row, o outcome) {
	if all[name] == nil {
		all[name] = map[row][]outcome{}
	}
	all[name][r] = append(all[name][r], o)
}

// floor is a performance that Corvo must reach, as a ratio to a reference of the same
// round.
type floor struct {
	what      string
	ours      string
	oursRow   row
	reference string
	row       row
	ratio     func(ours, reference, sync outcome) float64
	bound     string
}

func rates(ours, reference, _ outcome) float64 { return ours.rate / reference.rate }

// floors are the floors of docs/benchmarks.md that this command measures.
var floors = []floor{
	{"1: HTTP enqueue, 32 clients", corvoName, enqueue32, bareHandler, enqueue32, rates, "at least 0.45"},
	{"2: HTTP lifecycle, 128 clients, to a third of", corvoName, lifecycle128, bareHandler, enqueue128, func(ours, reference, _ outcome) float64 {
		return ours.rate / (reference.rate / 3)
	}, "at least 0.6"},
	{"3: HTTP enqueue p50, 1 client, to a sync and", corvoName, enqueue1, bareHandler, enqueue1, func(ours, reference, sync outcome) float64 {
		return float64(ours.p50) / float64(reference.p50+sync.p50)
	}, "at most 2"},
	{"4: stream enqueue", corvoName, bulkEnqueue, natsFast, bulkEnqueue, rates, "at least 1"},
	{"5: stream fetch and ack", corvoName, work, riverName, work, rates, "at least 2.5"},
	{"5: stream fetch and ack", corvoName, work, natsFast, work, rates, "at least 0.7"},
	{"6: stream steady", corvoName, steady, natsFast, steady, rates, "at least 1, p99 under 50 ms"},
	{"7: lifecycle in process", corvoInside, inProcess512, bareRaft, inProcess512, rates, "at least 0.5"},
}

// print writes the tables as Markdown.
func (all results) print(w io.Writer) {
	fmt.Fprintf(w, "\n| what | system | a second | p50 / p99 |\n|---|---|---|---|\n")
	for _, r := range rows {
		for _, s := range systems {
			if got := all[s.name][r]; len(got) > 0 {
				fmt.Fprintf(w, "| %s | %s | %.0f | %s / %s |\n", r, s.name,
					median(got, func(o outcome) float64 { return o.rate }), latency(got, func(o outcome) time.Duration { return o.p50 }), latency(got, func(o outcome) time.Duration { return o.p99 }))
			}
		}
	}
	fmt.Fprintf(w, "\n| floor | reference | ratio, median of rounds | bound |\n|---|---|---|---|\n")
	for _, f := range floors {
		if ratio, ok := all.ratio(f); ok {
			fmt.Fprintf(w, "| %s | %s | %.2f | %s |\n", f.what, f.reference, ratio, f.bound)
		}
	}
}

// ratio returns the median of a floor's ratios of all rounds. It does not divide medians,
// because a disturbance of a round affects both of its measurements.
func (all results) ratio(f floor) (ratio float64, ok bool) {
	ours, reference, syncs := all[f.ours][f.oursRow], all[f.reference][f.row], all[disk][sync4KiB]
	if f.oursRow == enqueue1 && len(syncs) < len(ours) {
		return 0, false
	}
	var ratios []float64
	for i := range min(len(ours), len(reference)) {
		var sync outcome
		if i < len(syncs) {
			sync = syncs[i]
		}
		ratios = append(ratios, f.ratio(ours[i], reference[i], sync))
	}
	return median(ratios, func(x float64) float64 { return x }), len(ratios) > 0
}

// median returns the middle value, the mean of the two middle values, or 0 without values.
func median[T any](all []T, of func(T) float64) float64 {
	if len(all) == 0 {
		return 0
	}
	values := make([]float64, len(all))
	for i, x := range all {
		values[i] = of(x)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func latency(all []outcome, of func(outcome) time.Duration) string {
	d := time.Duration(median(all, func(o outcome) float64 { return float64(of(o)) }))
	if d == 0 {
		return "-"
	}
	return d.Round(10 * time.Microsecond).String()
}
