// Command words measures the comments of the tree's Go packages, so that an author sees how plainly a package is
// written beside the aims of CONTRIBUTING.md. It is a measure and not a gate: it exits 0 whatever it counts. It
// imports nothing but the standard library.
//
// Two figures stand for the rest. Headless clauses per 1,000 words count sentences that hide their actor ("what came
// last is kept"). "X is" counts function comments that describe a thing ("limit is how many ...") instead of an action
// ("limit returns how many ..."). Test files are counted apart from code, because their comments matter less. Generated
// files are left out, because their comments come from the .proto.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// finishedList is a file of its own so that arch_test.go, in another module, can read it.
//
//go:embed finished.txt
var finishedList string

// aims are the highest values a package should show.
type aims struct {
	clauses float64 // headless clauses per 1,000 words
	isShare float64 // percent of function comments that read "X is ..."
}

var (
	finishedAims = aims{clauses: 3, isShare: 15}
	otherAims    = aims{clauses: 8, isShare: 25}
)

const header = `Headless clauses: the words what, who, whom, whatever, whoever, whomever and the phrase
"where there is no(ne)", per 1,000 words of comments. "X is": the share of function comments
that begin with the function's name and is or are. A * marks a value over its aim:
%g per 1,000 and %g %% in finished packages, %g and %g %% elsewhere. This is a measure, not a gate.

`

func main() {
	root := flag.String("root", ".", "folder of the tree")
	list := flag.Bool("list", false, "also list each place that was counted")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: words [-root DIR] [-list] [PACKAGE | FOLDER/... ...]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	packages, errs := measure(os.DirFS(*root), flag.Args())
	for _, err := range errs {
		fmt.Fprintln(os.Stderr, err)
	}
	report(os.Stdout, packages, *list)
}

// report prints a row per package, then the sums of the finished packages, of the others and of all.
func report(out io.Writer, packages map[string]*figures, list bool) {
	fmt.Fprintf(out, header, finishedAims.clauses, finishedAims.isShare, otherAims.clauses, otherAims.isShare)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "words\theadless\tX is\ttest words\theadless\tX is\t\tpackage")
	finishedSum, otherSum, sum := &figures{}, &figures{}, &figures{}
	for _, folder := range sortedKeys(packages) {
		f := packages[folder]
		aim, name := otherAims, folder
		if finished(folder) {
			aim, name = finishedAims, folder+" (finished)"
			finishedSum.add(f)
		} else {
			otherSum.add(f)
		}
		sum.add(f)
		row(table, name, f, aim)
	}
	row(table, "finished packages", finishedSum, finishedAims)
	row(table, "elsewhere", otherSum, otherAims)
	row(table, "all", sum, otherAims)
	_ = table.Flush()
	if list {
		fmt.Fprintln(out)
		for _, place := range sum.places {
			fmt.Fprintln(out, place)
		}
	}
}

func row(out io.Writer, name string, f *figures, aim aims) {
	fmt.Fprintf(out, "%d\t%s\t%s\t%d\t%s\t%s\t\t%s\n",
		f.code.words, mark(f.code.clauseRate(), aim.clauses), mark(f.code.isShare(), aim.isShare),
		f.tests.words, mark(f.tests.clauseRate(), aim.clauses), mark(f.tests.isShare(), aim.isShare), name)
}

// mark formats a value and stars it if it is over its aim.
func mark(value, aim float64) string {
	if value > aim {
		return fmt.Sprintf("%.1f*", value)
	}
	return fmt.Sprintf("%.1f ", value)
}

// finished reports whether a folder is a finished package or lies below one.
func finished(folder string) bool {
	return slices.ContainsFunc(strings.Fields(finishedList), func(listed string) bool {
		return folder == listed || strings.HasPrefix(folder, listed+"/")
	})
}

// selected reports whether the patterns name a folder. A pattern is a folder, or a folder and "/..." for all below it.
// No pattern selects everything.
func selected(folder string, patterns []string) bool {
	if len(patterns) == 0 {
		return true
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		pattern = strings.TrimPrefix(strings.TrimSuffix(pattern, "/"), "./")
		if pattern == "..." {
			return true
		}
		parent, recursive := strings.CutSuffix(pattern, "/...")
		return folder == parent || recursive && strings.HasPrefix(folder, parent+"/")
	})
}

// skipFolder reports whether a folder holds no source of ours.
func skipFolder(d fs.DirEntry) bool {
	name := d.Name()
	return name != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules", "vendor"}, name))
}
