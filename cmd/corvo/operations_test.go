package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/internal/proctest"
)

const operationsGuide = "../../docs/operations.md"

func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(operationsGuide)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheOperationsGuideIsTrue runs all commands of the guide in one directory. A command that
// starts a server ends the one before.
func TestTheOperationsGuideIsTrue(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	dir := t.TempDir()
	env := proctest.Shell(t, "../..", "./cmd/corvo")
	var p *process
	known, ran, servers := map[string]string{}, 0, 0
	for _, step := range proctest.Steps(t, operationsGuide) {
		if step.Where != "" && step.Where != proctest.Node {
			t.Errorf("nobody runs %q on %s", step.Command, step.Where)
			continue
		}
		server, starts := strings.CutPrefix(step.Command, "corvo server ")
		if !starts {
			step.Run(t, operationsGuide, dir, known, env...)
			ran++
			continue
		}
		if p != nil {
			if err := p.Terminate(t); err != nil {
				t.Fatal(err)
			}
		}
		args := strings.Fields(server)
		for k, arg := range args {
			if arg == "--data-dir" {
				args[k+1] = filepath.Join(dir, args[k+1])
			}
		}
		p = startServer(t, args...)
		key := adminKey(t, filepath.Join(dir, "data"))
		env = append(env, "CORVO_ENDPOINT="+p.endpoint, "CORVO_API_KEY="+key)
		servers++
	}
	if ran < 12 || servers != 2 {
		t.Errorf("the guide has %d commands and starts %d servers", ran, servers)
	}
}

// TestTheOperationsGuideNamesWhatThereIs checks that the metrics, error codes and log lines in the guide
// exist.
func TestTheOperationsGuideNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	text := guide(t)
	golden, err := os.ReadFile("../../telemetry/testdata/metrics.golden")
	if err != nil {
		t.Fatal(err)
	}
	codes, err := os.ReadFile("../../api/error.go")
	if err != nil {
		t.Fatal(err)
	}
	source := sources(t, "../../dataplane", "../../engine")
	for _, c := range []struct {
		pattern string
		least   int
		there   func(name string) bool
	}{
		{`\bcorvo_[a-z_]+\b`, 15, func(name string) bool { return strings.Contains(string(golden), name+"{") }},
		{"`([A-Z]+(?:_[A-Z]+)*)`", 6, func(name string) bool {
			return strings.HasPrefix(name, "CORVO_") || name == "RESET" || strings.Contains(string(codes), `"`+name+`"`)
		}},
		{`\| [^|]*"([a-z][a-z ]+)"`, 4, func(line string) bool { return strings.Contains(source, line) }},
	} {
		found := regexp.MustCompile(c.pattern).FindAllStringSubmatch(text, -1)
		if len(found) < c.least {
			t.Errorf("%s is found %d times", c.pattern, len(found))
		}
		for _, m := range found {
			if name := m[len(m)-1]; !c.there(name) {
				t.Errorf("the guide names %q, which there is not", name)
			}
		}
	}
}

// sources returns all our Go code below folders, without tests.
func sources(t *testing.T, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
