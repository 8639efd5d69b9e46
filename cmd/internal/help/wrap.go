package help

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// MinWidth and MaxWidth bound the width of help, in columns. A narrower terminal breaks the lines itself, and
// longer lines are hard to read.
const (
	MinWidth = 80
	MaxWidth = 120
)

// Width returns the width of help on a file. For a terminal it is the terminal's width within the bounds;
// otherwise it is MinWidth, so that help in a file is the same everywhere.
func Width(f *os.File) int {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil { // f is not a terminal
		return MinWidth
	}
	return min(max(columns, MinWidth), MaxWidth)
}

// Wrap breaks the help of a tree at a width. Usage lines and examples stay whole, because people paste them.
func Wrap(root *cobra.Command, width int) {
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprint(cmd.OutOrStderr(), usage(cmd, width))
		return err
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		about := cmd.Long
		if about == "" {
			about = cmd.Short
		}
		if _, err := fmt.Fprint(cmd.OutOrStdout(), paragraphs(about, width)+"\n\n"+usage(cmd, width)); err != nil {
			cmd.PrintErrln(err)
		}
	})
}

// usage returns the sections below a command's description, with cobra's titles.
func usage(cmd *cobra.Command, width int) string {
	cmd.LocalFlags() // merges the flags of the parents, which the usage line counts
	sections := []string{usageLines(cmd)}
	if cmd.HasExample() {
		sections = append(sections, "Examples:\n"+cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		sections = append(sections, commandLists(cmd, width)...)
	}
	if cmd.HasAvailableLocalFlags() {
		sections = append(sections, "Flags:\n"+strings.TrimRight(cmd.LocalFlags().FlagUsagesWrapped(width), "\n"))
	}
	if cmd.HasAvailableInheritedFlags() {
		sections = append(sections, "Global Flags:\n"+strings.TrimRight(cmd.InheritedFlags().FlagUsagesWrapped(width), "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		sections = append(sections, fold(fmt.Sprintf("Use %q for more information about a command.", cmd.CommandPath()+" [command] --help"), 0, width))
	}
	return strings.Join(sections, "\n\n") + "\n"
}

// usageLines returns the section with the forms of a command line.
func usageLines(cmd *cobra.Command) string {
	text := "Usage:"
	if cmd.Runnable() {
		text += "\n  " + cmd.UseLine()
	}
	if cmd.HasAvailableSubCommands() {
		text += "\n  " + cmd.CommandPath() + " [command]"
	}
	return text
}

// commandLists returns a section for each group of the commands below cmd.
func commandLists(cmd *cobra.Command, width int) (sections []string) {
	list := func(title, group string) {
		text := title
		for _, below := range cmd.Commands() {
			if below.GroupID == group && (below.IsAvailableCommand() || below.Name() == "help") {
				text += fmt.Sprintf("\n  %-*s %s", below.NamePadding(), below.Name(), fold(below.Short, below.NamePadding()+3, width))
			}
		}
		sections = append(sections, text)
	}
	if len(cmd.Groups()) == 0 {
		list("Available Commands:", "")
		return sections
	}
	for _, group := range cmd.Groups() {
		list(group.Title, group.ID)
	}
	if !cmd.AllChildCommandsHaveGroup() {
		list("Additional Commands:", "")
	}
	return sections
}

// paragraphs breaks the lines of a text anew at a width. Empty lines separate its paragraphs. An indented
// line is code and is kept.
func paragraphs(text string, width int) string {
	var out, open []string
	end := func() {
		if len(open) > 0 {
			out = append(out, fold(strings.Join(open, " "), 0, width))
			open = nil
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			end()
			out = append(out, line)
			continue
		}
		open = append(open, line)
	}
	end()
	return strings.Join(out, "\n")
}

// fold breaks a text between words so that no line exceeds a width. The text begins at the column
// indent, and so does each further line. A word longer than a line stays whole.
func fold(text string, indent, width int) string {
	var b strings.Builder
	column := indent
	for _, word := range strings.Fields(text) {
		size := utf8.RuneCountInString(word)
		switch {
		case column == indent:
		case column+1+size > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += size
	}
	return b.String()
}
