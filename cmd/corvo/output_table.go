package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
)

// A column is a named value that tables show of an A.
type column[A any] struct {
	head string
	cell func(A) string
}

// showList prints a table with a line for each element.
func showList[A any](w io.Writer, all []A, columns []column[A]) {
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	row(w, heads...)
	for _, a := range all {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(a)
		}
		row(w, cells...)
	}
}

// showOne prints a line for each column of one element.
func showOne[A any](w io.Writer, a A, columns ...column[A]) {
	for _, c := range columns {
		row(w, c.head, c.cell(a))
	}
}

// showKnown prints one element without its unknown values.
func showKnown[A any](w io.Writer, a A, columns ...column[A]) {
	for _, c := range columns {
		if text := c.cell(a); text != "" {
			row(w, c.head, text)
		}
	}
}

// row writes a line of a table. It cleans the cells, because text from strangers must neither leave its cell
// nor control the terminal.
func row(w io.Writer, cells ...string) {
	for i, text := range cells {
		cells[i] = known(plain(text))
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// plain replaces unprintable characters by spaces, so that the text is one line and cannot control a
// terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// clock formats a time to the second, so that all times have the same width.
func clock(t api.Time) string {
	at, ok, err := t.Parse()
	if err != nil || !ok {
		return string(t)
	}
	return at.Format(time.RFC3339)
}

// maybe formats an optional value; an absent one is unknown.
func maybe[T any](v *T, text func(T) string) string {
	if v == nil {
		return ""
	}
	return text(*v)
}

func texts[T ~string](v T) string { return string(v) }

func usd[T money.Nano | money.Total](n T) string { return fmt.Sprint(n) }

func count[T int | int64 | uint32 | money.Count](n T) string { return fmt.Sprint(n) }

// limit formats a bound; 0 means no bound.
func limit[T int | int64](n T) string {
	if n == 0 {
		return ""
	}
	return count(n)
}

func decimal(x float64) string { return fmt.Sprint(x) }

func yes(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

// jsonText returns JSON in one line; null counts as absent.
func jsonText(data json.RawMessage) string {
	if string(data) == "null" {
		return ""
	}
	return string(data)
}

// millis formats milliseconds as a duration.
func millis(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
