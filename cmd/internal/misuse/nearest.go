package misuse

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corvo/corvo/api/text"
)

// nearest returns the name that a word was meant for: one within text.MaxTypos edits, else
// the first that begins with the word; "" if there is none. Cobra's own suggestions are not
// ordered by their distance.
func nearest(word string, names []string) string {
	if near := text.Nearest(word, names); near != "" {
		return near
	}
	for _, name := range names {
		if len(word) > text.MaxTypos && strings.HasPrefix(name, word) {
			return name
		}
	}
	return ""
}

// nearCommand returns the command below cmd that a word was meant for.
func nearCommand(cmd *cobra.Command, word string) string {
	var names []string
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, below.Name())
		}
	}
	return nearest(word, names)
}

// nearFlag returns the flag of cmd that the unknown flag of an error was meant for.
func nearFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	})
	return nearest(unknown.GetSpecifiedName(), names)
}
