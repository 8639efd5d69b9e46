package proctest

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestStepsHaveTheirPlacesAndAnswers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "guide.md")
	text := strings.ReplaceAll(`
Prose, and a command in a line: ~corvo top~.

~~~
# Enqueue a job.
corvo enqueue q '{
  "n":1}'                # over two lines
#> JOB_ID
curl -s \
  x
both() {
  corvo "$1"
  corvo "$2"
}
# on a node:
corvo why JOB_ID
#> {"a":1,
#> "b":2}
~~~

~~~sh
corvo queues
# on node-1:
corvo server
~~~

~~~json
{"no":"command"}
~~~
`, "~", "`")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Command: "corvo enqueue q '{\n  \"n\":1}'                # over two lines", Answer: "JOB_ID"},
		{Command: "curl -s   x"},
		{Command: "both() {\n  corvo \"$1\"\n  corvo \"$2\"\n}"},
		{Command: "corvo why JOB_ID", Answer: `{"a":1,"b":2}`, Where: Node},
		{Command: "corvo queues"},
		{Command: "corvo server", Where: "node-1"},
	}
	if got := Steps(t, path); !reflect.DeepEqual(got, want) {
		t.Errorf("the steps are %q, want %q", got, want)
	}
}
