package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// count is what was counted in one kind of file of a package.
type count struct {
	words     int // words of comments
	clauses   int // headless clauses in them
	functions int // functions with a comment
	is        int // those whose comment reads "X is ..."
}

// clauseRate returns headless clauses per 1,000 words.
func (c count) clauseRate() float64 {
	return 1000 * float64(c.clauses) / float64(max(c.words, 1))
}

// isShare returns the percentage of function comments that read "X is ...".
func (c count) isShare() float64 {
	return 100 * float64(c.is) / float64(max(c.functions, 1))
}

func (c *count) add(other count) {
	c.words += other.words
	c.clauses += other.clauses
	c.functions += other.functions
	c.is += other.is
}

// figures are the counts of a package.
type figures struct {
	code, tests count
	places      []string // file:line and text of each hit, in the order of the files
}

func (f *figures) add(other *figures) {
	f.code.add(other.code)
	f.tests.add(other.tests)
	f.places = append(f.places, other.places...)
}

// measure counts the selected packages of a tree, by folder. It goes on after a file that does not parse and a pattern
// that matches nothing, and returns an error for each.
func measure(tree fs.FS, patterns []string) (map[string]*figures, []error) {
	packages := map[string]*figures{}
	var errs []error
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipFolder(d):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || !selected(path.Dir(name), patterns):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f := packages[path.Dir(name)]
		if f == nil {
			f = &figures{}
			packages[path.Dir(name)] = f
		}
		if err := f.addFile(name, text); err != nil {
			errs = append(errs, err)
		}
		return nil
	})
	errs = append(errs, err)
	for _, pattern := range patterns {
		folders := slices.Collect(maps.Keys(packages))
		if !slices.ContainsFunc(folders, func(folder string) bool { return selected(folder, []string{pattern}) }) {
			errs = append(errs, fmt.Errorf("no package matches %s", pattern))
		}
	}
	return packages, slices.DeleteFunc(errs, func(err error) bool { return err == nil || errors.Is(err, fs.SkipAll) })
}

// addFile parses a file and counts its comments.
func (f *figures) addFile(name string, text []byte) error {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	c := &f.code
	if strings.HasSuffix(name, "_test.go") {
		c = &f.tests
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			words, hits := countWords(comment.Text)
			c.words += words
			c.clauses += hits
			if hits > 0 {
				f.places = append(f.places, fmt.Sprintf("%s: %s", positions.Position(comment.Pos()), comment.Text))
			}
		}
	}
	for _, declaration := range file.Decls {
		fn, ok := declaration.(*ast.FuncDecl)
		if !ok || fn.Doc == nil {
			continue
		}
		c.functions++
		if describes(fn) {
			c.is++
			f.places = append(f.places, fmt.Sprintf("%s: X is: %s", positions.Position(fn.Doc.Pos()), firstLine(fn.Doc.Text())))
		}
	}
	return nil
}

var (
	directive = regexp.MustCompile(`^//[a-z]+:`) // go:embed, lint:ignore
	word      = regexp.MustCompile(`\S*\pL\S*`)
	headless  = regexp.MustCompile(`(?i)\b(what|who|whom|whatever|whoever|whomever|where there is (no|none))\b`)
)

// countWords counts the words and the headless clauses of a comment. The phrase with "where" is counted only if it is
// on one line.
func countWords(comment string) (words, clauses int) {
	if directive.MatchString(comment) {
		return 0, 0
	}
	return len(word.FindAllString(comment, -1)), len(headless.FindAllString(comment, -1))
}

// describes reports whether a function's comment begins with its name, alone or with others, and is or are.
func describes(fn *ast.FuncDecl) bool {
	rest, ok := strings.CutPrefix(fn.Doc.Text(), fn.Name.Name)
	return ok && isVerb.MatchString(rest)
}

var isVerb = regexp.MustCompile(`^(, \w+)*(,? and \w+)?\s+(is|are)\b`)

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func sortedKeys(m map[string]*figures) []string {
	return slices.Sorted(maps.Keys(m))
}
