// Package tftest runs the real terraform binary with a freshly built provider, and
// holds the acceptance scenario that every cloud has to pass. It owns how
// terraform is found, configured and run; it knows nothing of the provider's
// inside, and of ours imports only api, api/client and terraform-provider/examples.
package tftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// commandLimit is how long one run of terraform may take, also on a slow machine.
const commandLimit = 5 * time.Minute

// BinaryVariable names the terraform, or OpenTofu, to test with. Without it the
// first of terraform and tofu that is on PATH is taken.
const BinaryVariable = "CORVO_TERRAFORM"

// Tool is a terraform and a provider built from this tree.
type Tool struct {
	binary    string
	providers string // folder of the provider's binary
}

// Install finds terraform and builds the provider, for t and its subtests. Without
// a terraform it skips the test, but fails it where CI is set: a gate that skips
// is none.
func Install(t *testing.T) *Tool {
	t.Helper()
	binary, err := find()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	providers := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", providers+string(filepath.Separator), "github.com/corvo/corvo/cmd/terraform-provider-corvo")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v\n%s", err, out)
	}
	return &Tool{binary, providers}
}

func find() (string, error) {
	if named := os.Getenv(BinaryVariable); named != "" {
		return exec.LookPath(named)
	}
	for _, name := range []string{"terraform", "tofu"} {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", errors.New("neither terraform nor tofu is on PATH, and " + BinaryVariable + " names none: build one with `cd tools/tofu && go build -o tofu github.com/opentofu/opentofu/cmd/tofu`")
}

// Dir is a folder with a configuration and its state.
type Dir struct {
	Path string

	t      *testing.T
	binary string
	env    []string
	said   bytes.Buffer // all that terraform has printed
}

// Dir makes an empty folder. Terraform runs in it with the given environment
// (KEY=VALUE) and nothing of the test's own besides PATH.
func (tool *Tool) Dir(t *testing.T, env ...string) *Dir {
	t.Helper()
	d := &Dir{Path: t.TempDir(), t: t, binary: tool.binary}
	d.Write("cli.tfrc", fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"corvo/corvo\" = %q\n  }\n  direct {}\n}\n", tool.providers))
	d.env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + d.Path,
		"TF_CLI_CONFIG_FILE=" + filepath.Join(d.Path, "cli.tfrc"),
		"TF_IN_AUTOMATION=1",
		"TF_INPUT=0",
		"CHECKPOINT_DISABLE=1",
	}, env...)
	return d
}

// Setenv sets a variable for what runs from now on; TF_VAR_name sets the
// configuration's.
func (d *Dir) Setenv(name, value string) { d.env = append(d.env, name+"="+value) }

// Write writes a file of the folder.
func (d *Dir) Write(file, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.Path, file), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// Read reads a file of the folder; one that is not there is empty.
func (d *Dir) Read(file string) []byte {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.Path, file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	return text
}

func (d *Dir) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Dir = d.Path
	cmd.Env = d.env
	// Terraform passes an interrupt on to its plugins and ends them itself.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = commandLimit
	return cmd
}

// run runs terraform and returns what it printed and its exit code, which must be
// one of allowed.
func (d *Dir) run(args []string, allowed ...int) (out string, code int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), commandLimit)
	defer cancel()
	printed, err := d.command(ctx, args).CombinedOutput()
	d.said.Write(printed)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	if err != nil || !slices.Contains(allowed, code) {
		d.t.Fatalf("%s %s: exit code %d, %v\n%s", filepath.Base(d.binary), strings.Join(args, " "), code, err, printed)
	}
	return string(printed), code
}

// Apply makes it so.
func (d *Dir) Apply() string {
	d.t.Helper()
	out, _ := d.run([]string{"apply", "-auto-approve", "-no-color"}, 0)
	return out
}

// ApplyFails expects an apply to fail, and returns what terraform said.
func (d *Dir) ApplyFails() string {
	d.t.Helper()
	out, _ := d.run([]string{"apply", "-auto-approve", "-no-color"}, 1)
	return flat(out)
}

// flat undoes the wrapping and framing of terraform's messages.
func flat(out string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(out)), " ")
}

// ApplyInterrupted starts an apply, interrupts it when the wait is over, and
// returns what terraform said until it had ended.
func (d *Dir) ApplyInterrupted(wait func()) string {
	d.t.Helper()
	ctx, interrupt := context.WithCancel(d.t.Context())
	defer interrupt()
	cmd := d.command(ctx, []string{"apply", "-auto-approve", "-no-color"})
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	wait()
	interrupt()
	if err := cmd.Wait(); err == nil {
		d.t.Fatalf("an interrupted apply ended well:\n%s", &printed)
	}
	d.said.Write(printed.Bytes())
	return flat(printed.String())
}

// Plan says what an apply would do, and whether that is nothing.
func (d *Dir) Plan() (out string, empty bool) {
	d.t.Helper()
	out, code := d.run([]string{"plan", "-detailed-exitcode", "-no-color", "-out=plan"}, 0, 2)
	return out, code == 0
}

// Untaint has terraform take a resource whose create failed for whole.
func (d *Dir) Untaint(address string) {
	d.t.Helper()
	d.run([]string{"untaint", "-no-color", address}, 0)
}

// Import takes a resource that exists into the state.
func (d *Dir) Import(address, id string) {
	d.t.Helper()
	d.run([]string{"import", "-no-color", address, id}, 0)
}

// ImportFails expects an import to fail, and returns what terraform said.
func (d *Dir) ImportFails(address, id string) string {
	d.t.Helper()
	out, _ := d.run([]string{"import", "-no-color", address, id}, 1)
	return flat(out)
}

// Forget takes resources out of the state and leaves them as they are.
func (d *Dir) Forget(addresses ...string) {
	d.t.Helper()
	d.run(append([]string{"state", "rm"}, addresses...), 0)
}

// Destroy deletes all that the state has.
func (d *Dir) Destroy() string {
	d.t.Helper()
	out, _ := d.run([]string{"destroy", "-auto-approve", "-no-color"}, 0)
	return out
}

// State is the state file.
func (d *Dir) State() []byte {
	d.t.Helper()
	return d.Read("terraform.tfstate")
}

// Show is the state as terraform shows it, in JSON.
func (d *Dir) Show() []byte {
	d.t.Helper()
	out, _ := d.run([]string{"show", "-json"}, 0)
	return []byte(out)
}

// ShowPlan is the last plan as terraform shows it, in JSON.
func (d *Dir) ShowPlan() []byte {
	d.t.Helper()
	out, _ := d.run([]string{"show", "-json", "plan"}, 0)
	return []byte(out)
}

// Said is all that terraform has printed so far.
func (d *Dir) Said() string { return d.said.String() }

// Attribute is an attribute of a resource in the state, as JSON has it; nil where
// there is no such resource.
func (d *Dir) Attribute(resourceType, name, attribute string) any {
	d.t.Helper()
	var state struct {
		Resources []struct {
			Mode, Type, Name string
			Instances        []struct{ Attributes map[string]any }
		}
	}
	if err := json.Unmarshal(d.State(), &state); err != nil {
		d.t.Fatalf("read the state: %v", err)
	}
	for _, r := range state.Resources {
		if r.Mode == "managed" && r.Type == resourceType && r.Name == name && len(r.Instances) > 0 {
			return r.Instances[0].Attributes[attribute]
		}
	}
	return nil
}
