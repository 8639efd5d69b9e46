package main

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// textFlag is a text flag that refuses an empty value. If the variable in --endpoint "$STAGING" is empty,
// nobody means the default, which is another server.
type textFlag string

// bindText adds a textFlag to a set of flags.
func bindText(flags *pflag.FlagSet, text *string, name, usage string) {
	flags.Var((*textFlag)(text), name, usage)
}

func (f *textFlag) Set(text string) error {
	*f = textFlag(text)
	return notEmpty(text)
}

func (f *textFlag) String() string { return string(*f) }
func (f *textFlag) Type() string   { return "string" }

func notEmpty(text string) error {
	if text == "" {
		return errors.New("it is empty, perhaps from an unset variable: give a value or leave the flag out")
	}
	return nil
}

// fitsHeader refuses text that no HTTP header may carry. Otherwise the HTTP library would report it about a
// request that the person does not know of.
func fitsHeader(text string) error {
	bad := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	switch {
	case strings.ContainsAny(text, "\r\n"):
		return errors.New("it must be one line, without a line break")
	case strings.ContainsFunc(text, bad):
		return errors.New("it has a control character, which an HTTP header cannot carry: copy it again")
	}
	return nil
}
