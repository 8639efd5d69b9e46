package corvo

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/corvo/corvo"

// layers are the rows of packages: a package imports only from rows above its own.
// An unlisted package has the row of the nearest listed folder above it.
var layers = [][]string{
	{"telemetry", "api/workerpb", "api/text", "durable", "ui"},
	{"billing/money"},
	{"api"},
	{"tenancy", "api/rpc", "engine/entry", "engine/image"},
	{"billing", "tenancy/keyring", "tenancy/token"},
	{"dataplane/job", "api/fleet", "api/client", "api/serve", "billing/stripe", "engine/raftlog", "engine/transport", "engine/pipeline", "engine/replica"},
	{"dataplane/state", "engine", "engine/optable", "controlplane/fleet", "terraform-provider"},
	{"engine/cluster", "dataplane/op", "dataplane/view", "dataplane/backup", "controlplane/plan", "controlplane/store", "controlplane/provision"},
	{"dataplane/duties", "dataplane/sinks", "controlplane/reconcile", "controlplane/gateway"},
	{"dataplane/cell"},
	{"dataplane/host", "controlplane/server"},
	{"dataplane/router", "dataplane/agent"},
	{"dataplane/server"},
	{"dataplane", "controlplane", "cmd/internal/front"},
	{"cmd/internal/allinone", "dataplane/sim"},
	{"cmd", "deploy"},
}

// walls restrict the imports of a third party to the packages inside.
var walls = []struct {
	prefix string
	inside []string
	why    string
}{
	{"github.com/cockroachdb/pebble", []string{"dataplane/state", "engine/raftlog", "dataplane/sim"}, "key layouts have one owner"},
	{"github.com/hashicorp/raft", []string{"engine"}, "nobody else should know which raft it is"},
	{"modernc.org/sqlite", []string{"dataplane/view", "controlplane/store"}, "SQL is a projection on one plane and the store of the other"},
	{"github.com/stripe", []string{"billing/stripe"}, "billing must work without Stripe"},
	{"k8s.io", []string{"controlplane/provision/kubernetes"}, "Kubernetes is one of several provisioners"},
	{"github.com/hashicorp/terraform-plugin", []string{"terraform-provider"}, "the provider is a client like any other"},
}

// pure packages read no clock and no randomness: time comes from the entry, ids from
// the proposer.
var pure = []string{"dataplane/job", "dataplane/state", "dataplane/op", "controlplane/plan", "tenancy", "billing", "engine/entry", "engine/membership"}

var (
	pureExcept     = []string{"billing/stripe"}
	impureImports  = []string{"os", "net", "math/rand", "math/rand/v2", "crypto/rand"}
	impureTimeFns  = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker", "LoadLocation", "Local"}
	vagueNames     = []string{"util", "utils", "common", "helper", "helpers", "manager", "types", "models", "misc"}
	deep           = []string{"engine", "dataplane/state", "dataplane/op", "dataplane/view"}
	bothPlanes     = []string{"cmd/corvo-cloud", "cmd/internal/allinone"}
	maxFileLines   = 600
	maxFuncLines   = 80
	skippedFolders = []string{"tools", "bench", "ui", "sdk", "node_modules", "testdata", "data", "cloud-data", "node-data", "bin", "dist"}
)

// source is one Go file of the tree.
type source struct {
	folder string // slash-separated, "." for the root
	name   string
	text   []byte
	file   *ast.File
	fset   *token.FileSet
}

func (s source) test() bool      { return strings.HasSuffix(s.name, "_test.go") }
func (s source) generated() bool { return ast.IsGenerated(s.file) }
func (s source) path() string    { return path.Join(s.folder, s.name) }

func (s source) imports() []string {
	var all []string
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		all = append(all, p)
	}
	return all
}

func (s source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// tableLines counts the lines of a function in slice and map literals. Such tables make
// a function longer, not harder to read.
func (s source) tableLines(fn ast.Node) (lines int) {
	ast.Inspect(fn, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch literal.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
			lines += s.lines(literal) - 1
			return false
		}
		return true
	})
	return lines
}

// ours returns the folder of an import of this module.
func ours(imported string) (folder string, ok bool) {
	folder, ok = strings.CutPrefix(imported, module+"/")
	return folder, ok
}

// below reports whether folder is root or lies in it.
func below(folder, root string) bool {
	return folder == root || strings.HasPrefix(folder, root+"/")
}

func belowAny(folder string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return below(folder, root) })
}

// layerOf returns the row of a folder and the listed folder that determines it.
func layerOf(folder string) (row int, listed string) {
	row = -1
	for i, packages := range layers {
		for _, p := range packages {
			if below(folder, p) && len(p) > len(listed) {
				row, listed = i, p
			}
		}
	}
	return row, listed
}

func readTree(t *testing.T, tree fs.FS) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (slices.Contains(skippedFolders, d.Name()) || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{path.Dir(p), path.Base(p), text, file, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// rules are the checks of a tree. Each returns the breaches of its rule.
var rules = []struct {
	name  string
	check func(tree fs.FS, files []source) []string
}{
	{"layers", checkLayers},
	{"planes", checkPlanes},
	{"walls", checkWalls},
	{"purity", checkPurity},
	{"names", checkNames},
	{"sizes", checkSizes},
	{"comments", checkComments},
	{"finished", checkFinished},
	{"map", checkMap},
}

func TestTheHouseKeepsItsRules(t *testing.T) {
	t.Parallel()
	tree := os.DirFS(".")
	files := readTree(t, tree)
	for _, rule := range rules {
		for _, broken := range rule.check(tree, files) {
			t.Errorf("%s: %s", rule.name, broken)
		}
	}
}

func checkLayers(_ fs.FS, files []source) (broken []string) {
	for _, s := range files {
		if s.test() || s.folder == "." {
			continue
		}
		row, listed := layerOf(s.folder)
		if row < 0 {
			broken = append(broken, fmt.Sprintf("%s is in no row of layers; give its folder one in arch_test.go", s.path()))
			continue
		}
		for _, imported := range s.imports() {
			folder, ok := ours(imported)
			if !ok {
				continue
			}
			importedRow, importedListed := layerOf(folder)
			if importedListed == listed || (importedRow >= 0 && importedRow < row) {
				continue
			}
			broken = append(broken, fmt.Sprintf("%s (row %d) imports %s (row %d): a package imports only from rows above its own, or the flow gets a way back", s.path(), row+1, folder, importedRow+1))
		}
	}
	return broken
}

func checkPlanes(_ fs.FS, files []source) (broken []string) {
	for _, s := range files {
		if belowAny(s.folder, bothPlanes) {
			continue
		}
		sees := map[string]bool{}
		for _, plane := range []string{"dataplane", "controlplane"} {
			sees[plane] = below(s.folder, plane)
		}
		for _, imported := range s.imports() {
			folder, _ := ours(imported)
			for plane := range sees {
				sees[plane] = sees[plane] || below(folder, plane)
			}
		}
		if sees["dataplane"] && sees["controlplane"] {
			broken = append(broken, fmt.Sprintf("%s sees both planes: they meet only in api, tenancy, billing, engine, durable and telemetry, so that the node builds with the cloud deleted", s.path()))
		}
	}
	return broken
}

func checkWalls(_ fs.FS, files []source) (broken []string) {
	for _, s := range files {
		if s.test() {
			continue
		}
		for _, imported := range s.imports() {
			for _, wall := range walls {
				if strings.HasPrefix(imported, wall.prefix) && !belowAny(s.folder, wall.inside) && s.folder != "." {
					broken = append(broken, fmt.Sprintf("%s imports %s, which belongs behind %s: %s", s.path(), imported, strings.Join(wall.inside, ", "), wall.why))
				}
			}
		}
	}
	return broken
}

func checkPurity(_ fs.FS, files []source) (broken []string) {
	const why = "time comes from the entry and ids from the proposer, or replicas differ"
	for _, s := range files {
		if s.test() || !belowAny(s.folder, pure) || belowAny(s.folder, pureExcept) {
			continue
		}
		for _, imported := range s.imports() {
			if slices.Contains(impureImports, imported) || strings.HasPrefix(imported, "net/") {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", s.path(), imported, why))
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if base, ok := selector.X.(*ast.Ident); ok && base.Name == "time" && slices.Contains(impureTimeFns, selector.Sel.Name) {
				broken = append(broken, fmt.Sprintf("%s uses time.%s: %s", s.fset.Position(n.Pos()), selector.Sel.Name, why))
			}
			return true
		})
	}
	return broken
}

func checkNames(_ fs.FS, files []source) (broken []string) {
	for _, s := range files {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		if slices.Contains(vagueNames, name) {
			broken = append(broken, fmt.Sprintf("%s is in package %s: name a package for what it owns", s.path(), name))
		}
	}
	return broken
}

func checkSizes(_ fs.FS, files []source) (broken []string) {
	for _, s := range files {
		if s.generated() {
			continue
		}
		if lines := bytes.Count(s.text, []byte("\n")); lines >= maxFileLines {
			broken = append(broken, fmt.Sprintf("%s has %d lines, the bound is %d: is there a second subject in it?", s.path(), lines, maxFileLines))
		}
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := s.lines(fn) - s.tableLines(fn); lines >= maxFuncLines {
				broken = append(broken, fmt.Sprintf("%s: %s has %d lines, the bound is %d", s.path(), fn.Name.Name, lines, maxFuncLines))
			}
		}
	}
	return broken
}

func checkComments(tree fs.FS, files []source) (broken []string) {
	commented := map[string]bool{}
	for _, s := range files {
		if !s.test() && !s.generated() {
			has := s.file.Doc != nil && strings.TrimSpace(s.file.Doc.Text()) != ""
			commented[s.folder] = commented[s.folder] || has
		}
	}
	for folder, has := range commented {
		if !has {
			broken = append(broken, fmt.Sprintf("%s has no package comment: what it owns, what it does not, what it may import", folder))
		}
		if slices.Contains(deep, folder) {
			if _, err := fs.Stat(tree, path.Join(folder, "DESIGN.md")); err != nil {
				broken = append(broken, fmt.Sprintf("%s is deep and has no DESIGN.md of a page", folder))
			}
		}
	}
	slices.Sort(broken)
	return broken
}

// finishedList names the packages whose comments have the stricter aims of make words. It is a file because the command
// that embeds it is in another module. If it is missing, that command does not build.
const finishedList = "tools/words/finished.txt"

// checkFinished refuses a finished package that is not in the tree, because a renamed package would silently get the
// looser aims.
func checkFinished(tree fs.FS, files []source) (broken []string) {
	text, err := fs.ReadFile(tree, finishedList)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []string{err.Error()}
	}
	for _, listed := range strings.Fields(string(text)) {
		if !slices.ContainsFunc(files, func(s source) bool { return below(s.folder, listed) }) {
			broken = append(broken, fmt.Sprintf("%s lists %s, and no package is there", finishedList, listed))
		}
	}
	return broken
}

// mapPath matches a path in code quotes, such as `engine/group.go` or, after another path, `members.go`.
var mapPath = regexp.MustCompile("`([a-z][a-zA-Z0-9_.-]*(?:/[a-zA-Z0-9_.-]+)+|[a-z][a-z0-9_]*\\.(?:go|proto))`")

// checkMap refuses a path in ARCHITECTURE.md that is not in the tree, because a reader looks there first. A bare file
// name is in the folder of the path before it.
func checkMap(tree fs.FS, _ []source) (broken []string) {
	text, err := fs.ReadFile(tree, "ARCHITECTURE.md")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []string{err.Error()}
	}
	for i, line := range strings.Split(string(text), "\n") {
		folder := ""
		for _, found := range mapPath.FindAllStringSubmatch(line, -1) {
			name := found[1]
			if strings.Contains(name, "/") {
				folder = path.Dir(name)
			} else {
				name = path.Join(folder, name)
			}
			if _, err := fs.Stat(tree, name); err != nil {
				broken = append(broken, fmt.Sprintf("ARCHITECTURE.md:%d names %s, which is not in the tree", i+1, found[1]))
			}
		}
	}
	return broken
}

// TestTheRulesBite plants one breach of each rule in an otherwise clean tree and
// expects that rule, and no other, to find it.
func TestTheRulesBite(t *testing.T) {
	t.Parallel()
	const clean = "// Package x is documented.\npackage x\n"
	long := clean + strings.Repeat("// line\n", maxFileLines)
	breaches := []struct{ rule, path, text string }{
		{"layers", "dataplane/duties/a.go", clean + `import _ "` + module + `/dataplane/cell"`},
		{"layers", "dataplane/duties/b.go", clean + `import _ "` + module + `/dataplane/sinks"`},
		{"layers", "attic/a.go", clean},
		{"planes", "cmd/corvo/a.go", clean + "import (\n_ \"" + module + "/dataplane\"\n_ \"" + module + "/controlplane\"\n)"},
		{"walls", "dataplane/host/a.go", clean + `import _ "github.com/cockroachdb/pebble/v2"`},
		{"purity", "dataplane/job/a.go", clean + "import \"time\"\nvar now = time.Now()"},
		{"purity", "tenancy/a.go", clean + `import _ "net/http"`},
		{"names", "api/client/a.go", "// Package util is vague.\npackage util\n"},
		{"sizes", "api/client/long.go", long},
		{"sizes", "api/client/fn.go", clean + "func f() {\n" + strings.Repeat("\n", maxFuncLines) + "}\n"},
		{"comments", "api/client/bare.go", "package client\n"},
		{"comments", "engine/a.go", clean},
		{"finished", finishedList, "attic\n"},
		{"map", "ARCHITECTURE.md", "| a limit | `engine/limits.go` |\n"},
	}
	for _, breach := range breaches {
		t.Run(breach.rule+" "+breach.path, func(t *testing.T) {
			t.Parallel()
			tree := fstest.MapFS{breach.path: {Data: []byte(breach.text)}}
			files := readTree(t, tree)
			for _, rule := range rules {
				found := len(rule.check(tree, files)) > 0
				if want := rule.name == breach.rule; found != want {
					t.Errorf("rule %s: found a breach = %v, want %v", rule.name, found, want)
				}
			}
		})
	}
}
