package billing

import "time"

// Period is a stretch of the calendar.
type Period uint8

// The periods.
const (
	Day Period = iota
	Week
	Month
)

// Window is the period that a moment lies in, from midnight to midnight of a time
// zone: the end is the next one's start. Where a zone skips midnight the day begins at
// the first moment after, and where it has two of them at the first.
func (p Period) Window(at time.Time, zone *time.Location) (start, end time.Time) {
	first := p.first(date(at.In(zone).Date()))
	// A zone that turns back over midnight goes back into a day that was over: the
	// window that has begun stays.
	if at.Before(midnight(first, zone)) {
		first = p.first(first.AddDate(0, 0, -1))
	} else if next := p.next(first); !at.Before(midnight(next, zone)) {
		first = next
	}
	return midnight(first, zone), midnight(p.next(first), zone)
}

// date is a day of the calendar, as its midnight in UTC.
func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

// first is the first day of the period that a day is in.
func (p Period) first(day time.Time) time.Time {
	switch p {
	case Week:
		return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	case Month:
		return date(day.Year(), day.Month(), 1)
	}
	return day
}

// next is the first day of the period after the one that begins with a day.
func (p Period) next(first time.Time) time.Time {
	switch p {
	case Week:
		return first.AddDate(0, 0, 7)
	case Month:
		return first.AddDate(0, 1, 0)
	}
	return first.AddDate(0, 0, 1)
}

// midnight is the first moment of a day in a zone.
func midnight(day time.Time, zone *time.Location) time.Time {
	at := time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone)
	_, offset := at.Zone()
	start, end := at.ZoneBounds()
	switch local := at.Add(time.Duration(offset) * time.Second).UTC(); {
	case local.Before(day): // skipped, and at lies before the gap
		return end
	case local.After(day): // skipped, and at lies behind it
		return start
	case start.IsZero():
		return at
	}
	// There is an earlier one if the zone had turned back over it.
	_, before := start.Add(-1).Zone()
	if earlier := at.Add(time.Duration(offset-before) * time.Second); earlier.Before(start) {
		return earlier
	}
	return at
}
