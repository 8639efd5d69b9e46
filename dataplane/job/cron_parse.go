package job

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// cronField is one of the fields of an expression.
type cronField struct {
	name        string
	least, most int
	words       []string // of the values from least on; nil for none
	any         bool     // "?" may stand for "*"
	field       func(*Cron) *uint64
}

// cronFields are the fields in the order they are written. The seconds may be left out; they are then 0.
var cronFields = [...]cronField{
	{name: "second", most: 59, field: func(c *Cron) *uint64 { return &c.second }},
	{name: "minute", most: 59, field: func(c *Cron) *uint64 { return &c.minute }},
	{name: "hour", most: 23, field: func(c *Cron) *uint64 { return &c.hour }},
	{name: "day of month", least: 1, most: 31, any: true, field: func(c *Cron) *uint64 { return &c.day }},
	{name: "month", least: 1, most: 12, words: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}, field: func(c *Cron) *uint64 { return &c.month }},
	{name: "day of week", most: 7, words: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, any: true, field: func(c *Cron) *uint64 { return &c.weekday }},
}

// cronMacros are the names of common expressions.
var cronMacros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// ParseCron parses a cron expression. It has five fields (minute, hour, day of month, month, day of week), or
// six with the second first. Each field is a list of values, ranges "a-b" and steps "a-b/n", "*/n" or "a/n".
// Months and days of the week have names; Sunday is 0 and 7. In the two fields of days, "?" means "*".
// "@hourly" and the like are known. An expression that is never due is refused. The error says in a client's
// words which part is invalid.
func ParseCron(text string) (Cron, error) {
	if len(text) > MaxCronText {
		return Cron{}, fmt.Errorf("has %d bytes; a cron expression has at most %d", len(text), MaxCronText)
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "@") {
		expanded, ok := cronMacros[strings.ToLower(text)]
		if !ok {
			return Cron{}, noMacro(text)
		}
		text = expanded
	}
	fields := strings.Fields(text)
	switch len(fields) {
	case len(cronFields):
	case len(cronFields) - 1:
		fields = append([]string{"0"}, fields...)
	default:
		return Cron{}, wrongCount(fields)
	}
	var c Cron
	for i, f := range cronFields {
		values, err := f.parse(fields[i])
		if err != nil {
			return Cron{}, fmt.Errorf("has a %s %w", f.name, err)
		}
		*f.field(&c) = values
	}
	c.weekday = c.weekday&0x7f | c.weekday>>7 // 7 is Sunday too
	c.everyHour = fields[2] == "*"
	c.anyDay = fields[3] == "*" || fields[3] == "?"
	c.anyWeekday = fields[5] == "*" || fields[5] == "?"
	if !c.Runs() {
		return Cron{}, fmt.Errorf("is never due: no month it names has a day %s", fields[3])
	}
	return c, nil
}

func noMacro(text string) error {
	if word, _, _ := strings.Cut(strings.ToLower(text), " "); word == "@every" {
		// An interval has no place on the clock: its next run would depend on when the schedule was made, or
		// the leader changed.
		return errors.New("is an interval, and a schedule goes by the clock; write */10 in the second, minute or hour instead of @every")
	}
	return fmt.Errorf("%.32q is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually", text)
}

func wrongCount(fields []string) error {
	if len(fields) > 0 && (strings.HasPrefix(fields[0], "TZ=") || strings.HasPrefix(fields[0], "CRON_TZ=")) {
		return errors.New("names a time zone; give it as the schedule's timezone")
	}
	return fmt.Errorf("has %d fields; it takes 5 (minute, hour, day of month, month, day of week), or 6 with the second first", len(fields))
}

// parse parses the values of a field.
func (f *cronField) parse(text string) (values uint64, err error) {
	if text == "?" {
		if !f.any {
			return 0, errors.New(`"?", which only days may be; use "*"`)
		}
		text = "*"
	}
	for part := range strings.SplitSeq(text, ",") {
		some, err := f.part(part)
		if err != nil {
			return 0, err
		}
		values |= some
	}
	return values, nil
}

// part parses one element of a list.
func (f *cronField) part(text string) (values uint64, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	low, high, err := f.span(span, stepped)
	if err != nil {
		return 0, err
	}
	step := 1
	if stepped {
		step, err = strconv.Atoi(stepText)
		if most := f.most - f.least + 1; err != nil || step < 1 || step > most {
			return 0, fmt.Errorf("%.32q whose step is not a number from 1 to %d", text, most)
		}
	}
	for n := low; n <= high; n += step {
		values |= 1 << n
	}
	return values, nil
}

// span parses the part before the step: "*", a range, or one value. With a step, one value stands for the
// range from it to the end.
func (f *cronField) span(text string, stepped bool) (low, high int, err error) {
	if text == "*" {
		return f.least, f.most, nil
	}
	lowText, highText, isRange := strings.Cut(text, "-")
	if low, err = f.value(lowText); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange:
		if high, err = f.value(highText); err != nil {
			return 0, 0, err
		}
	case stepped:
		return low, f.most, nil
	default:
		return low, low, nil
	}
	if high == 0 && low > 0 && f.most == 7 {
		high = 7 // fri-sun
	}
	if low > high {
		return 0, 0, fmt.Errorf(`range %.32q that is written backwards; split it, as in "22-23,0-5"`, text)
	}
	return low, high, nil
}

// value parses a number or a name.
func (f *cronField) value(text string) (int, error) {
	for i, word := range f.words {
		if strings.EqualFold(text, word) {
			return f.least + i, nil
		}
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, f.noValue(text)
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.least || n > f.most {
		return 0, f.noValue(text)
	}
	return n, nil
}

func (f *cronField) noValue(text string) error {
	words := ""
	if f.words != nil {
		words = fmt.Sprintf(" or %s to %s", f.words[0], f.words[len(f.words)-1])
	}
	return fmt.Errorf("%.32q; %d to %d%s is allowed, or *", text, f.least, f.most, words)
}
