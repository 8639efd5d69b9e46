package main

import (
	"crypto/x509"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// dockerfile is deploy/Dockerfile: the instructions of the build stage and of the image.
type dockerfile struct{ build, image []instruction }

// instruction is a keyword such as RUN with its arguments.
type instruction struct{ word, rest string }

func readDockerfile(t *testing.T) *dockerfile {
	t.Helper()
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAll(text, nil)
	d := &dockerfile{}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "":
		case word == "FROM" && rest == "scratch", d.image != nil:
			d.image = append(d.image, instruction{word, rest})
		default:
			d.build = append(d.build, instruction{word, rest})
		}
	}
	if len(d.build) == 0 || len(d.image) == 0 {
		t.Fatalf("the Dockerfile does not end with an image from scratch: %+v", d)
	}
	return d
}

// of returns the arguments of a keyword that the image has exactly once.
func (d *dockerfile) of(t *testing.T, word string) string {
	t.Helper()
	all := slices.DeleteFunc(slices.Clone(d.image), func(i instruction) bool { return i.word != word })
	if len(all) != 1 {
		t.Fatalf("the image has %d instructions %s", len(all), word)
	}
	return all[0].rest
}

// exec returns a command line of the image. It is a JSON array, because the image has no shell.
func (d *dockerfile) exec(t *testing.T, word string) (command []string) {
	t.Helper()
	rest := d.of(t, word)
	if err := json.Unmarshal([]byte(rest[strings.Index(rest, "["):]), &command); err != nil || len(command) == 0 {
		t.Fatalf("%s %s: %v", word, rest, err)
	}
	return command
}

// env returns the image's environment.
func (d *dockerfile) env(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for field := range strings.FieldsSeq(d.of(t, "ENV")) {
		name, value, _ := strings.Cut(field, "=")
		env[name] = value
	}
	return env
}

// TestTheDockerfile checks that the Dockerfile matches the module: its version of Go, the node's ports, and
// known settings.
func TestTheDockerfile(t *testing.T) {
	t.Parallel()
	d := readDockerfile(t)
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)\.\d+$`).FindStringSubmatch(string(text))
	if wanted == nil || !regexp.MustCompile(`^GO_IMAGE=golang:`+regexp.QuoteMeta(wanted[1])+`\.\d+$`).MatchString(d.build[0].rest) {
		t.Errorf("%s %s: the image is to be built by a version of Go %v", d.build[0].word, d.build[0].rest, wanted)
	}
	if ports := d.of(t, "EXPOSE"); ports != strings.TrimPrefix(defaultBind, ":")+" "+strings.TrimPrefix(defaultRaftBind, ":") {
		t.Errorf("EXPOSE %s: those are not where it listens", ports)
	}
	if env := d.env(t); len(env) != 1 || env["CORVO_DATA_DIR"] != d.of(t, "VOLUME") {
		t.Errorf("ENV %v, VOLUME %s", env, d.of(t, "VOLUME"))
	}
}

// TestTheImage builds the image without a container engine: it runs the Dockerfile's commands, copies its
// files, and starts the node in a root that has nothing else, as the image's user, with its environment. With
// CORVO_IMAGE=1 the Dockerfile's own line builds the binary, which compiles everything anew; otherwise the
// tests' binary replaces it.
func TestTheImage(t *testing.T) {
	t.Parallel()
	const authorities = "/etc/ssl/certs/ca-certificates.crt"
	if _, err := os.Stat(authorities); err != nil || runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("needs Linux, root and the certificates of authorities")
	}
	d, root := readDockerfile(t), t.TempDir()
	d.lay(t, root)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(root, authorities))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		t.Errorf("the authorities: %v", err)
	}

	inside := func(command ...string) []string {
		args := []string{"-i", "CORVO_BIND=127.0.0.1:0", "CORVO_RAFT_BIND=127.0.0.1:0"}
		for name, value := range d.env(t) {
			args = append(args, name+"="+value)
		}
		// Look up chroot before the environment loses its PATH.
		chroot, err := exec.LookPath("chroot")
		if err != nil {
			t.Skip("no chroot on this machine")
		}
		return append(append(args, chroot, "--userspec="+d.of(t, "USER"), "--groups=", root), command...)
	}
	started, err := proctest.Start(t, "env", "try: ", inside(append(d.exec(t, "ENTRYPOINT"), d.exec(t, "CMD")...)...)...)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Process: started, endpoint: endpointPattern.FindStringSubmatch(strings.Join(started.Greeting, "\n"))[1]}
	probe := func() ([]byte, error) {
		return exec.Command("env", slices.Insert(inside(d.exec(t, "HEALTHCHECK")...), 1, "CORVO_ENDPOINT="+p.endpoint)...).CombinedOutput()
	}
	if out, err := probe(); err != nil {
		t.Errorf("the health check: %v\n%s", err, out)
	}
	c := newClient(t, p.endpoint, adminKey(t, filepath.Join(root, d.of(t, "VOLUME"))))
	if _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Error(err)
	}
	if _, err := c.CreateSchedule(t.Context(), api.ScheduleRequest{Name: "s", Queue: "q", Cron: "0 9 * * *", Timezone: "Europe/Berlin"}); err != nil {
		t.Errorf("time zones: %v", err)
	}
	if err := p.Terminate(t); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.Log())
	}
	if out, err := probe(); err == nil {
		t.Errorf("the health check finds a node that was stopped: %s", out)
	}
}

// lay writes the image's files below root.
func (d *dockerfile) lay(t *testing.T, root string) {
	t.Helper()
	stage := t.TempDir()
	here := strings.NewReplacer("/image", stage+"/image", "/volume", stage+"/volume")
	copied := false // the tree is copied; the commands before that fetch modules
	for _, i := range d.build {
		copied = copied || i == instruction{"COPY", ". ."}
		if i.word != "RUN" || !copied {
			continue
		}
		if strings.Contains(i.rest, "go build") && os.Getenv("CORVO_IMAGE") == "" {
			binary := proctest.Build(t, "../..", "./cmd/corvo")
			runLine(t, "install -D "+binary+" "+stage+"/image/corvo")
			// The tests' binary may need libraries, because it is not built as a static one.
			runLine(t, "libraries=$(ldd "+binary+" 2>/dev/null | grep -o '/[^ ]*') || exit 0; cp --parents -Lt "+stage+"/image $libraries")
			continue
		}
		runLine(t, here.Replace(i.rest), "VERSION=v0.0.0-test", "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH)
	}
	for _, i := range d.image {
		if i.word != "COPY" {
			continue
		}
		var owner string
		var paths []string
		for field := range strings.FieldsSeq(i.rest) {
			if value, ok := strings.CutPrefix(field, "--chown="); ok {
				owner = value
			} else if !strings.HasPrefix(field, "--") {
				paths = append(paths, field)
			}
		}
		if len(paths) != 2 || paths[1] != "/" || !strings.Contains(i.rest, "--from=build ") {
			t.Fatalf("COPY %s: the test knows only folders of the build that are copied to /", i.rest)
		}
		from := here.Replace(paths[0])
		if owner != "" {
			runLine(t, "chown -R "+owner+" "+from+"*")
		}
		runLine(t, "cp -a "+from+". "+root)
	}
}

// runLine runs a line in a shell, in the root of the tree.
func runLine(t *testing.T, line string, env ...string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}
