package job

import (
	"math/bits"
	"time"
)

// Cron is a parsed cron expression: which seconds of which minutes ... of which
// days. It knows no time zone; Next is asked in one. The zero Cron never runs:
// ParseCron makes useful ones.
//
// When a run is due, where clocks are put forward or back:
//
//   - A time that the clock skips is due once, at the first moment after the gap.
//   - A time that the clock shows twice is due once, the first time.
//   - Where the hour is "*", the expression says "every hour", not "at these
//     hours": it is due whenever the clock shows a time that fits. So it goes on
//     through a repeated hour, and has nothing to make up for a skipped one.
type Cron struct {
	// Bit n of each is set where n is a value of it; the day of week's go from 0,
	// Sunday, to 6.
	second, minute, hour, day, month, weekday uint64

	anyDay, anyWeekday bool // "*": the other of the two decides alone
	everyHour          bool // "*"
}

// cronHorizon is how far ahead a run is looked for: a day of the calendar comes
// back within 8 years, which is how long 29 February takes to come back over 2100.
const cronHorizon = 9 // years

// Next is the first moment after `after` at which the expression is due on the
// clocks of loc, in whole seconds; the zero time where there is none, as for 30
// February.
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

// Runs says whether there is any day on which the expression is due.
func (c Cron) Runs() bool {
	_, ok := c.nextClock(clock{year: 2000, month: 1, day: 1})
	return ok
}

// nextShown is the first moment, `from` or later, at which the clock shows a time
// that fits.
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

// nextOnce is the first moment, `from` or later, that firstShown makes of a time
// that fits. firstShown never falls, so the first one that is late enough is it;
// and what the clock showed before `from` was first shown before it, too.
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

// firstShown is the first moment at which a clock shows what a clock at UTC shows
// at utc, or, where it skips that, a later time.
func firstShown(utc int64, loc *time.Location) int64 {
	const mostOffset = 26 * 60 * 60 // seconds; no zone ever was so far from UTC
	for p := periodAt(utc-mostOffset, loc); ; p = periodAt(p.end, loc) {
		if at := max(utc-p.offset, p.start); p.forever || at < p.end {
			return at
		}
	}
}

// period is a time during which a zone's clocks have the same offset from UTC, all
// in seconds.
type period struct {
	start, end int64 // end is the next one's start
	offset     int64
	forever    bool // it has no end
}

// periodAt is the period that a moment lies in; what was before that moment is cut
// off where the zone does not say.
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
		// Beyond the table of a zone a leap year's last day is told to be over
		// before it begins. No clock was ever moved on it.
		p.end = at + 24*60*60
	}
	return p
}

// clock is what a clock with a calendar shows.
type clock struct {
	year, month, day     int
	hour, minute, second int
}

// clockOf is what a clock at UTC shows at a Unix time.
func clockOf(unix int64) clock {
	t := time.Unix(unix, 0).UTC()
	c := clock{}
	var month time.Month
	c.year, month, c.day = t.Date()
	c.hour, c.minute, c.second = t.Clock()
	c.month = int(month)
	return c
}

// seconds is the Unix time at which a clock at UTC shows c.
func (c clock) seconds() int64 {
	return time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, 0, time.UTC).Unix()
}

// plusSecond is the next second. It may show 60 seconds: nextClock carries.
func (c clock) plusSecond() clock {
	c.second++
	return c
}

// nextClock is the first time, `at` or later, that the expression fits, whatever
// zones there are. It goes by months and days, so the rarest takes no longer than
// about a hundred steps.
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

// nextInDay is the first time of at's day, `at` or later, that fits the hour,
// minute and second.
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

// days are the days of a month that fit. Where both the day of month and the day
// of week are given, a day fits that fits either of them, as in every cron.
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

// in says whether n is a value of a field.
func in(field uint64, n int) bool { return field>>n&1 == 1 }

// least is the least value of a field that is n or more; -1 for none.
func least(field uint64, n int) int {
	rest := field >> n
	if rest == 0 {
		return -1
	}
	return n + bits.TrailingZeros64(rest)
}
