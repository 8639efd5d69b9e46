package job

import (
	"math/bits"
	"time"
)

// Cron is a parsed cron expression: a set of seconds, minutes, hours, days, months and days of the week. It
// has no time zone; Next takes one. The zero Cron never runs; ParseCron makes useful ones.
//
// Where clocks are put forward or back, a run is due as follows:
//
// A time that the clock skips is due once, at the first moment after the gap.
//
// A time that the clock shows twice is due once, the first time.
//
// An hour of "*" means "every hour" and not "at these hours", so a run is due whenever the clock shows a
// matching time. It is due in a repeated hour too, and a skipped hour is not made up for.
type Cron struct {
	// Bit n of each field is set if n is one of its values. The days of the week go from 0, Sunday, to 6.
	second, minute, hour, day, month, weekday uint64

	anyDay, anyWeekday bool // "*": the other of the two decides alone
	everyHour          bool // "*"
}

// cronHorizon bounds the search for a run. A day of the calendar comes back within 8 years, which 29 February
// needs over 2100.
const cronHorizon = 9 // years

// Next returns the first moment after `after` at which the expression is due on the clocks of loc, in whole
// seconds. It returns the zero time if there is none, as for 30 February.
func (c Cron) Next(after time.Time, loc *time.Location) time.Time {
	from := after.Unix() + 1
	var at int64
	var ok bool
	if c.everyHour {
		at, ok = c.nextShown(from, loc)
	} else {
		at, ok = c.nextOnce(from, loc)
	}
	if !ok {
		return time.Time{}
	}
	return time.Unix(at, 0).In(loc)
}

// Runs reports whether the expression is due on any day.
func (c Cron) Runs() bool {
	_, ok := c.nextClock(clock{year: 2000, month: 1, day: 1})
	return ok
}

// nextShown returns the first moment, not before from, at which the clock shows a matching time.
func (c Cron) nextShown(from int64, loc *time.Location) (int64, bool) {
	for p := periodAt(from, loc); ; p = periodAt(p.end, loc) {
		shown, ok := c.nextClock(clockOf(max(from, p.start) + p.offset))
		if !ok {
			return 0, false
		}
		if at := shown.seconds() - p.offset; p.forever || at < p.end {
			return at, true
		}
		if clockOf(p.end).year > clockOf(from).year+cronHorizon {
			return 0, false
		}
	}
}

// nextOnce returns the first moment, not before from, that firstShown gives for a matching time. firstShown
// never falls as its argument grows. So the first result that is late enough is the answer, and every time
// that the clock shows before from is also first shown before from.
func (c Cron) nextOnce(from int64, loc *time.Location) (int64, bool) {
	shown := clockOf(from - 1 + periodAt(from-1, loc).offset)
	for {
		var ok bool
		if shown, ok = c.nextClock(shown.plusSecond()); !ok {
			return 0, false
		}
		if at := firstShown(shown.seconds(), loc); at >= from {
			return at, true
		}
	}
}

// firstShown returns the first moment when a clock in loc shows a given time, or a later time if the clock
// skips that one. utc is the moment when a UTC clock shows the given time.
func firstShown(utc int64, loc *time.Location) int64 {
	const mostOffset = 26 * 60 * 60 // seconds; no zone ever was so far from UTC
	for p := periodAt(utc-mostOffset, loc); ; p = periodAt(p.end, loc) {
		if at := max(utc-p.offset, p.start); p.forever || at < p.end {
			return at
		}
	}
}

// period is a time during which a zone's clocks have one offset from UTC, all in seconds.
type period struct {
	start, end int64 // end is the next one's start
	offset     int64
	forever    bool // it has no end
}

// periodAt returns the period around a moment. If the zone does not say when the period began, it begins at
// the moment.
func periodAt(at int64, loc *time.Location) period {
	t := time.Unix(at, 0).In(loc)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	p := period{start: at, offset: int64(offset), forever: end.IsZero()}
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !p.forever {
		p.end = end.Unix()
	}
	if p.end <= at {
		// Beyond the table of a zone, the standard library ends the last day of a leap year before it begins.
		// No clock changes on that day.
		p.end = at + 24*60*60
	}
	return p
}

// clock is the reading of a clock with a calendar.
type clock struct {
	year, month, day     int
	hour, minute, second int
}

// clockOf returns the reading of a UTC clock at a Unix time.
func clockOf(unix int64) clock {
	t := time.Unix(unix, 0).UTC()
	c := clock{}
	var month time.Month
	c.year, month, c.day = t.Date()
	c.hour, c.minute, c.second = t.Clock()
	c.month = int(month)
	return c
}

// seconds returns the Unix time at which a UTC clock reads c.
func (c clock) seconds() int64 {
	return time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, 0, time.UTC).Unix()
}

// plusSecond returns the next second. It may read 60 seconds, because nextClock carries.
func (c clock) plusSecond() clock {
	c.second++
	return c
}

// nextClock returns the first matching reading that is not before at, in no time zone. It steps by months and
// days, so the rarest expression takes about a hundred steps.
func (c Cron) nextClock(at clock) (clock, bool) {
	if at, ok := c.nextInDay(at); ok && c.fitsDay(at) {
		return at, true
	}
	from := at.day + 1 // in the month of `at`
	for year, month := at.year, at.month; year <= at.year+cronHorizon; year, month = year+1, 1 {
		for ; month <= 12; month++ {
			if in(c.month, month) {
				if day := least(c.days(year, month), from); day >= 0 {
					return clock{year, month, day, least(c.hour, 0), least(c.minute, 0), least(c.second, 0)}, true
				}
			}
			from = 1
		}
	}
	return clock{}, false
}

// nextInDay returns the first reading on at's day that is not before at and whose hour, minute and second
// match.
func (c Cron) nextInDay(at clock) (clock, bool) {
	if in(c.hour, at.hour) {
		if in(c.minute, at.minute) {
			if second := least(c.second, at.second); second >= 0 {
				at.second = second
				return at, true
			}
		}
		if minute := least(c.minute, at.minute+1); minute >= 0 {
			at.minute, at.second = minute, least(c.second, 0)
			return at, true
		}
	}
	if hour := least(c.hour, at.hour+1); hour >= 0 {
		at.hour, at.minute, at.second = hour, least(c.minute, 0), least(c.second, 0)
		return at, true
	}
	return clock{}, false
}

func (c Cron) fitsDay(at clock) bool {
	return in(c.month, at.month) && in(c.days(at.year, at.month), at.day)
}

// days returns the matching days of a month. If both the day of month and the day of week are given, a day
// matches if either does, as in every cron.
func (c Cron) days(year, month int) uint64 {
	first := time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
	length := first.AddDate(0, 1, -1).Day()
	var weekdays uint64
	for day := 1; day <= length; day++ {
		if in(c.weekday, (int(first.Weekday())+day-1)%7) {
			weekdays |= 1 << day
		}
	}
	all := uint64(1)<<(length+1) - 2
	switch {
	case c.anyDay:
		return weekdays
	case c.anyWeekday:
		return c.day & all
	}
	return c.day&all | weekdays
}

// in reports whether n is a value of a field.
func in(field uint64, n int) bool { return field>>n&1 == 1 }

// least returns the smallest value of a field that is n or more, or -1 if there is none.
func least(field uint64, n int) int {
	rest := field >> n
	if rest == 0 {
		return -1
	}
	return n + bits.TrailingZeros64(rest)
}
