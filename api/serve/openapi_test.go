package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

type base struct {
	CreatedAt time.Time `json:"created_at"`
}

type node1 struct {
	base
	ID       string            `json:"id"`
	Children []*node1          `json:"children,omitempty"` // refers back to itself
	Cost     money.Nano        `json:"cost_usd"`
	Payload  json.RawMessage   `json:"payload,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	Labels   api.Strings       `json:"labels,omitempty"`
	Size     uint32            `json:"size,omitempty"`
	Count    int               `json:"count"`
	Level    int32             `json:"level"`
	Ratio    float64           `json:"ratio"`
	Done     bool              `json:"done"`
	Hash     []byte            `json:"hash,omitempty"`
	Wait     api.Duration      `json:"wait,omitempty"`
	At       api.Time          `json:"at,omitempty"`
	Urgency  api.Priority      `json:"urgency,omitempty"`
	Inline   struct {
		X any `json:"x"`
	} `json:"inline,omitzero"`
	Hidden string `json:"-"`
	NoTag  string
}

// documented is a table with one row of each kind.
func documented() []Route {
	h := answer("x")
	return []Route{
		{Method: "POST", Path: "/api/v1/nodes", Permission: tenancy.JobEnqueue, Summary: "Make a node", Request: node1{}, Response: node1{}, Status: http.StatusCreated, Handler: h},
		{Method: "GET", Path: "/api/v1/nodes/{id}", Permission: tenancy.JobRead, Summary: "One node", Response: &node1{}, Handler: h},
		{Method: "DELETE", Path: "/api/v1/nodes/{id}/parts/{part_id}", Permission: tenancy.JobManage, Summary: "Delete a part", Status: http.StatusNoContent, Handler: h},
		{Method: "GET", Path: "/api/v1/nodes", Permission: tenancy.JobRead, Summary: "All nodes", Response: []node1{}, Query: []Param{
			{Name: "limit", Type: "integer", Doc: "how many at most"}, {Name: "cursor"},
		}, Handler: h},
		{Method: "GET", Path: "/ui/{path...}", Permission: Open, Summary: "The console", Handler: h},
		{Method: "GET", Path: "/{$}", Permission: Open, Summary: "Where to begin", Response: map[string]string{}, Handler: h},
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	got, err := Document(Info{Title: "Test", Version: "1"}, documented())
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/openapi.golden"
	if *rewrite {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the document changed; -rewrite if that is meant:\n%s", got)
	}
	newNode(t, documented()...) // the table is one New takes
}

// TestDocumentHoldsTogether checks that every reference resolves and that every operation has a name of
// its own.
func TestDocumentHoldsTogether(t *testing.T) {
	t.Parallel()
	text, err := Document(Info{Title: "Test", Version: "1", Description: "d"}, documented())
	if err != nil {
		t.Fatal(err)
	}
	var root any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	refs, names := 0, map[string]bool{}
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				visit(element)
			}
		case object:
			if ref, ok := v["$ref"].(string); ok {
				refs++
				at := root
				for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					at, ok = at.(object)[name]
					if !ok {
						t.Errorf("%s leads nowhere", ref)
						return
					}
				}
			}
			if name, ok := v["operationId"].(string); ok {
				if names[name] {
					t.Errorf("two operations are called %s", name)
				}
				names[name] = true
			}
			for _, member := range v {
				visit(member)
			}
		}
	}
	visit(root)
	if refs == 0 || len(names) != len(documented()) {
		t.Errorf("%d references, %d operations of %d", refs, len(names), len(documented()))
	}
}

func TestDocumentRefusesTwoOperationsOfOneName(t *testing.T) {
	t.Parallel()
	routes := append(documented(), Route{Method: "GET", Path: "/nodes/id", Permission: Open})
	if _, err := Document(Info{}, routes); err == nil || !strings.Contains(err.Error(), "two operations are called getNodesId") {
		t.Errorf("it is %v", err)
	}
}

func TestFieldsOf(t *testing.T) {
	t.Parallel()
	type Exported struct{ A, b int }
	type named struct{ N int }
	type whole struct {
		Exported
		*base
		named   `json:"named"`
		*Pointy `json:"pointy"`
		None    int `json:"-"`
		Plain   int
		Opt     int `json:",omitempty"`
		private int
	}
	var names []string
	for _, f := range fieldsOf(reflect.TypeFor[whole]()) {
		names = append(names, f.name)
	}
	// The fields are those that encoding/json writes.
	text, err := json.Marshal(whole{base: &base{}, Opt: 1, private: 1, Exported: Exported{b: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var written map[string]any
	if err := json.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(written)); !slices.Equal(names, want) {
		t.Errorf("fields are %v, encoding/json writes %v", names, want)
	}
}

// Pointy is embedded with a name.
type Pointy struct{ P int }

func TestDocumentRefusesTwoTypesOfOneName(t *testing.T) {
	t.Parallel()
	other := func() any {
		type node1 struct{ Y int }
		return node1{}
	}()
	type Problem struct{ Z int }
	for _, v := range []any{other, Problem{}} {
		routes := append(documented(), Route{Method: "PUT", Path: "/other", Permission: Open, Request: v})
		if _, err := Document(Info{}, routes); err == nil || !strings.Contains(err.Error(), "two types are called") {
			t.Errorf("%T beside the others: %v", v, err)
		}
	}
}
