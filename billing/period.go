package billing

import "time"

// Period is a unit of the calendar: a day, a week or a month.
type Period uint8

// The periods. A week begins on Monday.
const (
	Day Period = iota
	Week
	Month
)

// Window returns the period around a moment, from midnight to midnight in a time zone. The end of a period is
// the start of the next one. If a zone skips a midnight, the day starts at the first moment after the gap. If a
// midnight comes twice, the day starts at the first one.
func (p Period) Window(at time.Time, zone *time.Location) (start, end time.Time) {
	first := p.first(date(at.In(zone).Date()))
	// A zone that turns its clock back over midnight returns to the day before. The window that has begun
	// stays.
	if at.Before(midnight(first, zone)) {
		first = p.first(first.AddDate(0, 0, -1))
	} else if next := p.next(first); !at.Before(midnight(next, zone)) {
		first = next
	}
	return midnight(first, zone), midnight(p.next(first), zone)
}

// date returns the midnight in UTC that stands for a calendar day.
func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

// first returns the first day of the period around a day.
func (p Period) first(day time.Time) time.Time {
	switch p {
	case Week:
		return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	case Month:
		return date(day.Year(), day.Month(), 1)
	}
	return day
}

// next returns the first day of the period after the one that starts on first.
func (p Period) next(first time.Time) time.Time {
	switch p {
	case Week:
		return first.AddDate(0, 0, 7)
	case Month:
		return first.AddDate(0, 1, 0)
	}
	return first.AddDate(0, 0, 1)
}

// midnight returns the first moment of a day in a zone.
func midnight(day time.Time, zone *time.Location) time.Time {
	at := time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone)
	_, offset := at.Zone()
	start, end := at.ZoneBounds()
	switch local := at.Add(time.Duration(offset) * time.Second).UTC(); {
	case local.Before(day): // midnight was skipped, and at lies before the gap
		return end
	case local.After(day): // midnight was skipped, and at lies after the gap
		return start
	case start.IsZero():
		return at
	}
	// If the zone turned its clock back over midnight, there is an earlier midnight.
	_, before := start.Add(-1).Zone()
	if earlier := at.Add(time.Duration(offset-before) * time.Second); earlier.Before(start) {
		return earlier
	}
	return at
}
