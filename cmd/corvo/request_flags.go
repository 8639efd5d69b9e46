package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
)

// An edit is a flag that changes one field of a request. The command line parses it first and applies it once
// the request exists, because the request may start from the server's current values.
type edit[Req any] struct {
	name, kind, usage string
	read              func(text string) (func(*Req), error)
}

// nothing is the flag value that clears a field.
const nothing = "none"

// set makes a flag for a field. The value none sets the field to its zero value.
func set[Req, T any](name, usage string, as form[T], field func(*Req) *T) edit[Req] {
	return edit[Req]{name, as.kind, usage, func(text string) (func(*Req), error) {
		var v T
		if text == nothing {
			return func(r *Req) { *field(r) = v }, nil
		}
		v, err := as.read(text)
		return func(r *Req) { *field(r) = v }, err
	}}
}

// option makes a flag for an optional field. The value none removes the field.
func option[Req, T any](name, usage string, as form[T], field func(*Req) **T) edit[Req] {
	return edit[Req]{name, as.kind, usage, func(text string) (func(*Req), error) {
		if text == nothing {
			return func(r *Req) { *field(r) = nil }, nil
		}
		v, err := as.read(text)
		return func(r *Req) { *field(r) = &v }, err
	}}
}

// into makes a repeatable flag, each use of which adds a pair to a field.
func into[Req any](name, usage string, field func(*Req) *api.Strings) edit[Req] {
	return edit[Req]{name, "name=value", usage, func(text string) (func(*Req), error) {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("write it as NAME=VALUE")
		}
		return func(r *Req) {
			pairs := field(r)
			if *pairs == nil {
				*pairs = api.Strings{}
			}
			(*pairs)[name] = value
		}, nil
	}}
}

// edits are the given flags in their order.
type edits[Req any] []func(*Req)

// bind adds the flags to a command.
func (made *edits[Req]) bind(cmd *cobra.Command, all ...edit[Req]) {
	for _, c := range all {
		f := cmd.Flags().VarPF(editFlag[Req]{c, made}, c.name, "", c.usage)
		if c.kind == yesNo.kind {
			f.NoOptDefVal = "true"
		}
	}
}

// apply changes a request by the given flags.
func (made edits[Req]) apply(r *Req) {
	for _, change := range made {
		change(r)
	}
}

// editFlag adapts an edit to pflag.Value.
type editFlag[Req any] struct {
	edit[Req]
	made *edits[Req]
}

func (f editFlag[Req]) Set(text string) error {
	change, err := f.read(text)
	if err == nil {
		*f.made = append(*f.made, change)
	}
	return err
}

func (f editFlag[Req]) String() string { return "" }
func (f editFlag[Req]) Type() string   { return f.kind }

// form parses the values of flags of one kind.
type form[T any] struct {
	kind string
	read func(text string) (T, error)
}

var (
	words = form[string]{"text", func(text string) (string, error) { return text, nil }}
	// someText refuses empty text, such as the value of an unset variable.
	someText = form[string]{words.kind, func(text string) (string, error) { return text, notEmpty(text) }}
	dollars  = form[money.Nano]{"usd", money.Parse}
	estimate = form[money.Reported]{"usd", func(text string) (money.Reported, error) {
		cost, err := money.Round([]byte(text))
		return money.Reported(cost), err
	}}
	whole  = form[int]{"n", func(text string) (int, error) { n, err := readWhole(text); return int(n), err }}
	tokens = form[int64]{"n", readWhole}
	number = form[float64]{"x", func(text string) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("it must be a number, such as 12 or 0.5")
		}
		return x, nil
	}}
	span = form[api.Duration]{"duration", func(text string) (api.Duration, error) {
		_, err := api.Duration(text).Parse(0)
		return api.Duration(text), err
	}}
	// fromNow reads a duration and returns the time that far from now.
	fromNow = form[api.Time]{"duration", func(text string) (api.Time, error) {
		d, err := api.Duration(text).Parse(0)
		return api.TimeOf(time.Now().Add(d)), err
	}}
	// instant reads a time; a date means its midnight in UTC.
	instant = form[api.Time]{"time", func(text string) (api.Time, error) {
		if day, err := time.Parse(time.DateOnly, text); err == nil {
			return api.TimeOf(day), nil
		}
		_, _, err := api.Time(text).Parse()
		if err != nil {
			err = fmt.Errorf(`%w, nor a date like "2026-02-11"`, err)
		}
		return api.Time(text), err
	}}
	priorityWord = form[api.Priority]{"text", func(text string) (api.Priority, error) { return api.Priority(text), nil }}
	inMillis     = form[int64]{span.kind, func(text string) (int64, error) {
		d, err := api.Duration(text).Parse(0)
		if err == nil && d%time.Millisecond != 0 {
			err = fmt.Errorf("it must be a whole number of milliseconds")
		}
		return d.Milliseconds(), err
	}}
	yesNo = form[bool]{"bool", func(text string) (bool, error) {
		yes, err := strconv.ParseBool(text)
		if err != nil {
			return false, fmt.Errorf("it must be true or false")
		}
		return yes, nil
	}}
	names = form[[]string]{"a,b", func(text string) ([]string, error) { return strings.Split(text, ","), nil }}
	// document reads JSON, or the JSON in a file after @.
	document = form[json.RawMessage]{"json|@file", func(text string) (json.RawMessage, error) {
		data := []byte(text)
		if file, ok := strings.CutPrefix(text, "@"); ok {
			var err error
			if data, err = readInput(file); err != nil {
				return nil, err
			}
		}
		if !json.Valid(data) {
			return nil, fmt.Errorf(`it is not JSON; write it like '{"kind":"daily"}', or @FILE for a file of it`)
		}
		return data, nil
	}}
	// secret reads text from a file, because the process list and the shell's history would expose an
	// argument.
	secret = form[string]{"file", func(file string) (string, error) {
		data, err := readInput(file)
		text := strings.TrimRight(string(data), "\r\n")
		if err == nil && text == "" {
			err = fmt.Errorf("it is empty")
		}
		return text, err
	}}
	// credential reads a secret that a request carries in a header.
	credential = form[string]{secret.kind, func(file string) (string, error) {
		text, err := secret.read(file)
		if err == nil {
			err = fitsHeader(text)
		}
		return text, err
	}}
)

// jsonOf reads a JSON document of type T and refuses unknown fields.
func jsonOf[T any]() form[T] {
	return form[T]{document.kind, func(text string) (v T, err error) {
		data, err := document.read(text)
		if err != nil {
			return v, err
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		return v, d.Decode(&v)
	}}
}

func readWhole(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, strconv.IntSize)
	if err != nil {
		return 0, fmt.Errorf("it must be a whole number")
	}
	return n, nil
}

// readInput reads a file, or stdin if the file is "-".
func readInput(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(file)
}
