package server

import (
	"fmt"
	"testing"
	"time"
)

func TestDaysOfAPlace(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	all := interval{at("2026-03-28T12:00:00Z"), at("2026-03-30T12:00:00Z")} // the clocks change on the 29th
	var hours []float64
	for _, day := range all.days(zone) {
		hours = append(hours, day.to.Sub(day.from).Hours())
	}
	if fmt.Sprint(hours) != "[11 23 14]" {
		t.Errorf("the days have %v hours", hours)
	}
}
