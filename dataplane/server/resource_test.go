package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corvo/corvo/tenancy"
)

// thingNode starts a node that also serves things.
func thingNode(t *testing.T, prefix string) *node {
	t.Helper()
	n := startNode(t, nil)
	front := httptest.NewServer(n.server.Things(t, prefix))
	t.Cleanup(front.Close)
	n.url = front.URL
	return n
}

// thingCall is a request and its expected answer.
type thingCall struct {
	method, path, body, ifMatch string
	status                      int
	says, etag                  string
}

func (n *node) calls(key string, all ...thingCall) {
	n.t.Helper()
	for _, c := range all {
		var header []string
		if c.ifMatch != "" {
			header = append(header, "If-Match: "+c.ifMatch)
		}
		a := n.send(c.method, "/api/v1/things"+c.path, key, c.body, header...)
		if a.status != c.status || !strings.Contains(string(a.body), c.says) || c.etag != "" && a.header.Get("ETag") != c.etag {
			n.t.Errorf("%s %s %s (If-Match %s): %d %s %s, want %d %s %s", c.method, c.path, c.body, c.ifMatch, a.status, a.header.Get("ETag"), a.body, c.status, c.etag, c.says)
		}
	}
}

func TestAResourcesLife(t *testing.T) {
	t.Parallel()
	n := thingNode(t, "")
	n.calls(n.admin,
		thingCall{method: "GET", status: 200, says: "[]"},
		thingCall{method: "POST", body: `{"name":"b","size":5}`, status: 201, says: `{"name":"b","size":5}`, etag: `"1"`},
		thingCall{method: "POST", body: `{"name":"b","size":6}`, status: 409, says: "exists already"},
		thingCall{method: "POST", body: `{"name":"c","sise":6}`, status: 400},
		thingCall{method: "POST", body: `{"name":""}`, status: 400, says: "name is missing"},
		thingCall{method: "GET", path: "/b", status: 200, says: `{"name":"b","size":5}`, etag: `"1"`},
		thingCall{method: "GET", path: "/nobody", status: 404, says: "there is no thing"},
		thingCall{method: "PUT", path: "/b", body: `{"size":7}`, status: 200, etag: `"2"`},
		thingCall{method: "PUT", path: "/b", body: `{"size":8}`, ifMatch: `"1"`, status: 412},
		thingCall{method: "PUT", path: "/b", body: `{"size":9}`, ifMatch: `"2"`, status: 200, etag: `"3"`},
		thingCall{method: "PUT", path: "/a", body: `{"size":4}`, ifMatch: `"1"`, status: 412, says: "leave If-Match out"},
		thingCall{method: "PUT", path: "/a", body: `{"size":4}`, ifMatch: `*`, status: 412},
		thingCall{method: "PUT", path: "/a", body: `{"size":4}`, status: 201, etag: `"1"`},
		thingCall{method: "GET", status: 200, says: `[{"name":"a","size":4},{"name":"b","size":9}]`},
		thingCall{method: "DELETE", path: "/b", ifMatch: `"1"`, status: 412},
		thingCall{method: "DELETE", path: "/b", ifMatch: `"3"`, status: 200, says: `{"status":"deleted"}`},
		thingCall{method: "DELETE", path: "/b", status: 404},
		thingCall{method: "GET", status: 200, says: `[{"name":"a","size":4}]`},
	)
}

// TestAResourceTheServerNames checks that a PUT replaces a resource whose id the server has assigned, and
// that a PUT to an unknown id creates no resource.
func TestAResourceTheServerNames(t *testing.T) {
	t.Parallel()
	n := thingNode(t, "thing_")
	a := n.send("POST", "/api/v1/things", n.admin, `{"size":5}`)
	name, _, _ := strings.Cut(strings.TrimPrefix(string(a.body), `{"name":"`), `"`)
	if a.status != http.StatusCreated || !strings.HasPrefix(name, "thing_") || len(name) != len("thing_")+26 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	n.calls(n.admin,
		thingCall{method: "PUT", path: "/" + name, body: `{"size":6}`, status: 200, says: name, etag: `"2"`},
		thingCall{method: "PUT", path: "/thing_other", body: `{"size":6}`, status: 404},
		thingCall{method: "DELETE", path: "/" + name, status: 200},
	)
}

// A key for some queues may declare the resources of those queues. It sees the resources of the namespace,
// but neither creates them nor turns them into resources of its queues.
func TestResourcesOfAQueue(t *testing.T) {
	t.Parallel()
	n := thingNode(t, "")
	scoped := func(glob string) string {
		return n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, QueueScope: []tenancy.Glob{tenancy.Glob(glob)}})
	}
	mine, theirs := scoped("mine.*"), scoped("theirs.*")
	const wide = `{"name":"wide","size":5}`
	n.calls(n.admin, thingCall{method: "POST", body: wide, status: 201})
	n.calls(mine,
		thingCall{method: "POST", body: `{"name":"own","size":1}`, status: 201},
		thingCall{method: "POST", body: `{"name":"other","size":2}`, status: 403},
		thingCall{method: "GET", path: "/wide", status: 200, says: wide},
		thingCall{method: "PUT", path: "/wide", body: `{"size":1}`, status: 403},
		thingCall{method: "PUT", path: "/wide", body: `{"size":6}`, status: 403},
		thingCall{method: "DELETE", path: "/wide", status: 403},
		thingCall{method: "PUT", path: "/own", body: `{"size":2}`, status: 403},
		thingCall{method: "GET", status: 200, says: fmt.Sprintf(`[{"name":"own","size":1},%s]`, wide)},
	)
	n.calls(theirs,
		thingCall{method: "GET", status: 200, says: "[" + wide + "]"},
		thingCall{method: "GET", path: "/own", status: 404},
		thingCall{method: "DELETE", path: "/own", status: 404},
		thingCall{method: "PUT", path: "/own", body: `{"size":1}`, status: 403},
	)
	n.calls(mine, thingCall{method: "DELETE", path: "/own", status: 200})
}
