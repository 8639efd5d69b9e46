package misuse

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxTypos is how many letters a word may differ from the one that is suggested.
const maxTypos = 2

// nearest returns the name that a word was meant for, the first of those that are
// equally near; "" where none is near. A name that begins with the word counts as near
// as one with maxTypos. Cobra's own suggestions are not ordered by their distance.
func nearest(word string, names []string) (best string) {
	least := maxTypos + 1
	for _, name := range names {
		d := distance(word, name)
		if strings.HasPrefix(name, word) {
			d = min(d, maxTypos)
		}
		if d < least && d < len(word) {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to insert, drop or change between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the letters of a so far
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
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
