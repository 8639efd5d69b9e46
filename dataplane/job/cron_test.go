package job_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func cron(t testing.TB, text string) job.Cron {
	t.Helper()
	c, err := job.ParseCron(text)
	if err != nil {
		t.Fatalf("%q %v", text, err)
	}
	return c
}

// Each case lists the runs after a moment, all in the zone's own time, with the offset because it tells two
// moments apart.
func TestCronNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, cron, after, runs string }{
		// Fields.
		{"UTC", "* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z 2026-01-01T00:02:00Z"},
		{"UTC", "* * * * *", "2026-01-01T00:00:59.999Z", "2026-01-01T00:01:00Z"},
		{"UTC", "* * * * * *", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:01Z 2026-01-01T00:00:02Z"},
		{"UTC", "*/20 59 23 31 12 *", "2026-06-01T00:00:00Z", "2026-12-31T23:59:00Z 2026-12-31T23:59:20Z 2026-12-31T23:59:40Z 2027-12-31T23:59:00Z"},
		{"UTC", "5-10/5,50 8 * * *", "2026-06-01T08:05:00Z", "2026-06-01T08:10:00Z 2026-06-01T08:50:00Z 2026-06-02T08:05:00Z"},
		{"UTC", "0 20/2 * * *", "2026-06-01T00:00:00Z", "2026-06-01T20:00:00Z 2026-06-01T22:00:00Z 2026-06-02T20:00:00Z"},
		{"UTC", "0 9 * JAN,mar Mon-Fri", "2026-01-30T10:00:00Z", "2026-03-02T09:00:00Z 2026-03-03T09:00:00Z"},
		{"UTC", "0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z"},
		{"UTC", "0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"UTC", "0 0 * * fri-sun", "2026-01-04T00:00:00Z", "2026-01-09T00:00:00Z 2026-01-10T00:00:00Z 2026-01-11T00:00:00Z"},
		{"UTC", "0 0 * * sun-mon", "2026-01-05T00:00:00Z", "2026-01-11T00:00:00Z 2026-01-12T00:00:00Z 2026-01-18T00:00:00Z"},
		{"UTC", "0 0 * * 0-0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z"},
		{"UTC", "  0\t12 ? * MON ", "2026-01-01T00:00:00Z", "2026-01-05T12:00:00Z"},
		// The day of month or the day of week.
		{"UTC", "0 0 13 * fri", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z 2026-02-13T00:00:00Z 2026-02-20T00:00:00Z 2026-02-27T00:00:00Z 2026-03-06T00:00:00Z 2026-03-13T00:00:00Z 2026-03-20T00:00:00Z 2026-03-27T00:00:00Z 2026-04-03T00:00:00Z 2026-04-10T00:00:00Z 2026-04-13T00:00:00Z"},
		{"UTC", "0 0 31 2 mon", "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z 2026-02-09T00:00:00Z"},
		// Ends of months, leap years, and the year 2100, which is not one.
		{"UTC", "0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z 2026-05-31T00:00:00Z"},
		{"UTC", "0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z"},
		{"UTC", "0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"Europe/Berlin", "0 * 29 2 *", "2096-02-29T23:00:00+01:00", "2104-02-29T00:00:00+01:00"},
		{"UTC", "59 23 28-31 * *", "2026-02-28T23:59:00Z", "2026-03-28T23:59:00Z"},
		// Macros.
		{"UTC", "@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
		{"UTC", "@Daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"UTC", "@midnight", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"UTC", "@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"UTC", "@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"UTC", "@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"UTC", "@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		// Berlin: 02:00 to 03:00 is skipped on 29 March, and shown twice on 25 October.
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"Europe/Berlin", "0,15,30 2-3 * * *", "2026-03-29T00:00:00+01:00", "2026-03-29T03:00:00+02:00 2026-03-29T03:15:00+02:00"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-25T02:10:00+01:00", "2026-10-26T02:30:00+01:00"},
		{"Europe/Berlin", "0 3 * * *", "2026-10-25T02:59:00+02:00", "2026-10-25T03:00:00+01:00"},
		{"Europe/Berlin", "30 * * * *", "2026-03-29T01:00:00+01:00", "2026-03-29T01:30:00+01:00 2026-03-29T03:30:00+02:00"},
		{"Europe/Berlin", "30 * * * *", "2026-10-25T01:00:00+02:00", "2026-10-25T01:30:00+02:00 2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T03:30:00+01:00"},
		{"Europe/Berlin", "30 0-23 * * *", "2026-10-25T01:30:00+02:00", "2026-10-25T02:30:00+02:00 2026-10-25T03:30:00+01:00"},
		{"Europe/Berlin", "0 0 1 1 *", "2026-03-01T00:00:00+01:00", "2027-01-01T00:00:00+01:00"},
		// New York.
		{"America/New_York", "15 2 * * *", "2026-03-07T12:00:00-05:00", "2026-03-08T03:00:00-04:00 2026-03-09T02:15:00-04:00"},
		{"America/New_York", "15 1 * * *", "2026-10-31T12:00:00-04:00", "2026-11-01T01:15:00-04:00 2026-11-02T01:15:00-05:00"},
		{"America/New_York", "*/30 * * * *", "2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00 2026-11-01T01:00:00-05:00 2026-11-01T01:30:00-05:00 2026-11-01T02:00:00-05:00"},
		// Lord Howe moves by half an hour.
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30", "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00:00+11:00", "2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30"},
		{"Australia/Lord_Howe", "45 * * * *", "2026-04-05T01:00:00+11:00", "2026-04-05T01:45:00+11:00 2026-04-05T01:45:00+10:30 2026-04-05T02:45:00+10:30"},
		// Kathmandu is 5:45 from UTC.
		{"Asia/Kathmandu", "0 0 * * *", "2026-01-01T12:00:00+05:45", "2026-01-02T00:00:00+05:45"},
		// There was no midnight.
		{"America/Sao_Paulo", "0 0 * * *", "2017-10-14T00:00:00-03:00", "2017-10-15T01:00:00-02:00 2017-10-16T00:00:00-02:00"},
		{"America/Sao_Paulo", "30 23 * * *", "2018-02-17T12:00:00-02:00", "2018-02-17T23:30:00-02:00 2018-02-18T23:30:00-03:00"},
		{"Asia/Beirut", "0 0 * * sun", "2022-03-26T12:00:00+02:00", "2022-03-27T01:00:00+03:00 2022-04-03T00:00:00+03:00"},
		// Samoa had no 30 December 2011.
		{"Pacific/Apia", "0 12 * * *", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00 2011-12-31T12:00:00+14:00"},
	} {
		loc := zone(t, c.zone)
		at, err := time.Parse(time.RFC3339Nano, c.after)
		if err != nil {
			t.Fatal(err)
		}
		parsed := cron(t, c.cron)
		for _, want := range strings.Fields(c.runs) {
			at = parsed.Next(at, loc)
			if got := at.Format(time.RFC3339); got != want {
				t.Errorf("%s, %q after %s: %s, want %s", c.zone, c.cron, c.after, got, want)
				break
			}
		}
	}
}

func TestParseCronRefusals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "has 0 fields; it takes 5",
		"* * * *":                 "has 4 fields; it takes 5 (minute, hour, day of month, month, day of week), or 6 with the second first",
		"* * * * * * *":           "has 7 fields",
		"60 * * * *":              `has a minute "60"; 0 to 59 is allowed, or *`,
		"60 * * * * *":            `has a second "60"; 0 to 59`,
		"* 24 * * *":              `has a hour "24"; 0 to 23`,
		"* * 0 * *":               `has a day of month "0"; 1 to 31`,
		"* * 32 * *":              `has a day of month "32"`,
		"* * * 13 *":              `has a month "13"; 1 to 12 or jan to dec is allowed`,
		"* * * foo *":             `has a month "foo"`,
		"* * * * 8":               `has a day of week "8"; 0 to 7 or sun to sat`,
		"* * * * funday":          `has a day of week "funday"`,
		"? * * * *":               `has a minute "?", which only days may be`,
		"* * ?,1 * *":             `has a day of month "?"`,
		"-1 * * * *":              `has a minute ""`,
		"1,,2 * * * *":            `has a minute ""`,
		"1- * * * *":              `has a minute ""`,
		"1-2-3 * * * *":           `has a minute "2-3"`,
		"5-1 * * * *":             `has a minute range "5-1" that is written backwards`,
		"* 22-5 * * *":            `has a hour range "22-5" that is written backwards; split it`,
		"*/0 * * * *":             `has a minute "*/0" whose step is not a number from 1 to 60`,
		"*/61 * * * *":            `step is not a number from 1 to 60`,
		"*/x * * * *":             `step is not a number`,
		"*/ * * * *":              `step is not a number`,
		"*/1/2 * * * *":           `step is not a number`,
		"+1 * * * *":              `has a minute "+1"`,
		"1.5 * * * *":             `has a minute "1.5"`,
		"99999999999999 * * * *":  `has a minute "99999999999999"`,
		"* * L * *":               `has a day of month "L"`,
		"* * * * mon#2":           `has a day of week "mon#2"`,
		"@every 90s":              "is an interval",
		"@reboot":                 `"@reboot" is none of @hourly`,
		"@":                       `"@" is none of`,
		"TZ=UTC 0 0 * * *":        `has a second "TZ=UTC"`,
		"CRON_TZ=UTC 0 0 0 * * *": "names a time zone; give it as the schedule's timezone",
		"0 0 30 2 *":              "is never due",
		"0 0 31 4,6,9,11 ?":       "is never due",
		"* * * * *" + strings.Repeat(" ", job.MaxCronText): "at most 256",
	} {
		if _, err := job.ParseCron(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := job.ParseCron("* * * * *" + strings.Repeat(" ", job.MaxCronText-9)); err != nil {
		t.Errorf("an expression as long as it may be: %v", err)
	}
}

// A zero Cron, which did not come from ParseCron, is never due, and Next does not hang.
func TestTheZeroCronIsNeverDue(t *testing.T) {
	t.Parallel()
	if at := (job.Cron{}).Next(time.Unix(0, 0), time.UTC); !at.IsZero() {
		t.Errorf("is due at %s", at)
	}
}

// zones lists zones whose clocks move in the most different ways.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Asia/Beirut", "Africa/Casablanca", "Pacific/Apia"}

// A walker that looks at every minute finds the same runs. It knows nothing of offsets, only the times that
// the clock has shown so far. A time is due when the clock shows it, or has passed it, for the first time;
// with every hour, a time is due whenever the clock shows it.
func TestCronIsWhatAWalkerFinds(t *testing.T) {
	t.Parallel()
	locs := make([]*time.Location, len(zones))
	for i, name := range zones {
		locs[i] = zone(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		fields := []string{
			drawField(t, "minute", 0, 59), drawField(t, "hour", 0, 23), drawField(t, "day", 1, 31), drawField(t, "month", 1, 12), drawField(t, "weekday", 0, 7),
		}
		text := strings.Join(fields, " ")
		parsed, err := job.ParseCron(text)
		if err != nil {
			t.Skip(err)
		}
		loc := rapid.SampledFrom(locs).Draw(t, "zone")
		// Where clocks move, more often than not.
		start := time.Date(rapid.IntRange(2009, 2030).Draw(t, "year"), 1, 1, 0, 0, 0, 0, loc)
		if _, moves := start.ZoneBounds(); rapid.Bool().Draw(t, "at a change") && !moves.IsZero() {
			start = moves
		}
		start = start.Add(time.Duration(rapid.IntRange(-30*60, 2*60).Draw(t, "minutes")) * time.Minute).Truncate(time.Minute)

		var want []time.Time
		end := start.Add(3 * 24 * time.Hour)
		var shown time.Time // the latest that the clock has shown, as if at UTC
		for at := start.Add(-30 * time.Hour); !at.After(end); at = at.Add(time.Minute) {
			now := asUTC(at.In(loc))
			if shown.IsZero() {
				shown = now.Add(-time.Minute)
			}
			due := false
			if fields[1] == "*" {
				due = fits(fields, now)
			} else {
				for ; shown.Before(now); shown = shown.Add(time.Minute) {
					due = due || fits(fields, shown.Add(time.Minute))
				}
			}
			if due && at.After(start) {
				want = append(want, at)
			}
		}
		at := start
		for i := 0; ; i++ {
			at = parsed.Next(at, loc)
			if at.IsZero() || at.After(end) {
				if i != len(want) {
					t.Fatalf("%q in %s after %s: %d runs, want %d", text, loc, start, i, len(want))
				}
				return
			}
			if i >= len(want) || !at.Equal(want[i]) {
				t.Fatalf("%q in %s after %s: run %d is at %s, want %v", text, loc, start, i, at, want[min(i, len(want)):min(i+1, len(want))])
			}
		}
	})
}

func asUTC(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
}

// drawField draws a field that lets a time pass fairly often.
func drawField(t *rapid.T, name string, least, most int) string {
	switch rapid.IntRange(0, 4).Draw(t, name) {
	case 0, 1:
		return "*"
	case 2:
		return fmt.Sprintf("*/%d", rapid.IntRange(1, most).Draw(t, name))
	case 3:
		low := rapid.IntRange(least, most).Draw(t, name)
		return fmt.Sprintf("%d-%d", low, rapid.IntRange(low, most).Draw(t, name))
	}
	return fmt.Sprintf("%d,%d", rapid.IntRange(least, most).Draw(t, name), rapid.IntRange(least, most).Draw(t, name))
}

// fits reports whether a time matches fields from drawField, by the walker's own reading.
func fits(fields []string, at time.Time) bool {
	minute, hour, month := fitsField(fields[0], at.Minute(), 0), fitsField(fields[1], at.Hour(), 0), fitsField(fields[3], int(at.Month()), 1)
	day := fitsField(fields[2], at.Day(), 1)
	weekday := fitsField(fields[4], int(at.Weekday()), 0) || at.Weekday() == time.Sunday && fitsField(fields[4], 7, 0)
	if fields[2] != "*" && fields[4] != "*" {
		return minute && hour && month && (day || weekday)
	}
	return minute && hour && month && day && weekday
}

func fitsField(field string, n, least int) bool {
	var a, b int
	if field == "*" {
		return true
	}
	if _, err := fmt.Sscanf(field, "*/%d", &a); err == nil {
		return (n-least)%a == 0
	}
	if _, err := fmt.Sscanf(field, "%d-%d", &a, &b); err == nil && strings.Contains(field, "-") {
		return a <= n && n <= b
	}
	fmt.Sscanf(field, "%d,%d", &a, &b)
	return n == a || n == b
}

// The parser returns for any text. A Cron that it accepts has a next run, which is later than the given
// moment.
func FuzzParseCron(f *testing.F) {
	for _, text := range []string{"* * * * *", "*/5 0-3,7 1 jan mon-fri", "0 0 0 29 2 ?", "@weekly", "@every 1s", "61 * * * *", "1-/2 * * * *", "0 0 30 2 *"} {
		f.Add(text, int64(1_700_000_000))
	}
	loc := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		c, err := job.ParseCron(text)
		if err != nil {
			return
		}
		after := time.Unix(unix%(1<<33), 0)
		at := c.Next(after, loc)
		if !at.After(after) {
			t.Errorf("%q after %s is due at %s", text, after, at)
		}
	})
}

func BenchmarkCronNext(b *testing.B) {
	loc := zone(b, "Europe/Berlin")
	after := time.Date(2026, 3, 1, 12, 0, 0, 0, loc)
	for _, text := range []string{"* * * * * *", "*/5 * * * *", "30 2 * * *", "0 0 1 1 *", "0 0 29 2 *", "0 * 29 2 *"} {
		c, err := job.ParseCron(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Next(after, loc)
			}
		})
	}
}
