// Package tftest runs the real terraform binary with a freshly built provider, and holds
// the acceptance scenario that every cloud must pass. It finds, configures and runs
// terraform. It knows nothing of the provider's internals, and of this module it imports
// only api, api/client and terraform-provider/examples.
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

// commandLimit bounds one run of terraform, even on a slow machine.
const commandLimit = 5 * time.Minute

// BinaryVariable names the terraform or OpenTofu binary to test with. Without it the tests
// use the first of terraform and tofu on PATH.
const BinaryVariable = "CORVO_TERRAFORM"

// Tool is a terraform and a provider built from this tree.
type Tool struct {
	binary    string
	providers string // directory of the provider's binary
}

// Install finds terraform and builds the provider, for t and its subtests. Without a
// terraform it skips the test, but fails it if CI is set, because a gate that skips checks
// nothing.
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

// Dir is a directory with a configuration and its state.
type Dir struct {
	Path string

	t      *testing.T
	binary string
	env    []string
	said   bytes.Buffer // all output of terraform
}

// Dir makes an empty directory. Terraform runs in it with the given environment
// (KEY=VALUE), and of the test's environment gets only PATH.
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

// Setenv sets an environment variable for later runs; TF_VAR_name sets a variable of the
// configuration.
func (d *Dir) Setenv(name, value string) { d.env = append(d.env, name+"="+value) }

// Write writes a file of the directory.
func (d *Dir) Write(file, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.Path, file), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// Read reads a file of the directory; a missing file is empty.
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

// run runs terraform and returns its output and its exit code, which must be one of
// allowed.
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

// Apply runs terraform apply and returns its output.
func (d *Dir) Apply() string {
	d.t.Helper()
	out, _ := d.run([]string{"apply", "-auto-approve", "-no-color"}, 0)
	return out
}

// ApplyFails expects an apply to fail, and returns its output.
func (d *Dir) ApplyFails() string {
	d.t.Helper()
	out, _ := d.run([]string{"apply", "-auto-approve", "-no-color"}, 1)
	return flat(out)
}

// flat undoes the wrapping and framing of terraform's messages.
func flat(out string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(out)), " ")
}

// ApplyInterrupted starts an apply, interrupts it after wait has returned, and returns its
// whole output.
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

// Plan returns the output of a plan and whether the plan is empty.
func (d *Dir) Plan() (out string, empty bool) {
	d.t.Helper()
	out, code := d.run([]string{"plan", "-detailed-exitcode", "-no-color", "-out=plan"}, 0, 2)
	return out, code == 0
}

// Untaint marks a resource whose create failed as complete.
func (d *Dir) Untaint(address string) {
	d.t.Helper()
	d.run([]string{"untaint", "-no-color", address}, 0)
}

// Import imports an existing resource into the state.
func (d *Dir) Import(address, id string) {
	d.t.Helper()
	d.run([]string{"import", "-no-color", address, id}, 0)
}

// ImportFails expects an import to fail, and returns its output.
func (d *Dir) ImportFails(address, id string) string {
	d.t.Helper()
	out, _ := d.run([]string{"import", "-no-color", address, id}, 1)
	return flat(out)
}

// Forget removes resources from the state without a change of the resources.
func (d *Dir) Forget(addresses ...string) {
	d.t.Helper()
	d.run(append([]string{"state", "rm"}, addresses...), 0)
}

// Destroy deletes all resources of the state.
func (d *Dir) Destroy() string {
	d.t.Helper()
	out, _ := d.run([]string{"destroy", "-auto-approve", "-no-color"}, 0)
	return out
}

// State returns the state file.
func (d *Dir) State() []byte {
	d.t.Helper()
	return d.Read("terraform.tfstate")
}

// Show returns the state as terraform shows it, in JSON.
func (d *Dir) Show() []byte {
	d.t.Helper()
	out, _ := d.run([]string{"show", "-json"}, 0)
	return []byte(out)
}

// ShowPlan returns the last plan as terraform shows it, in JSON.
func (d *Dir) ShowPlan() []byte {
	d.t.Helper()
	out, _ := d.run([]string{"show", "-json", "plan"}, 0)
	return []byte(out)
}

// Said returns all output of terraform so far.
func (d *Dir) Said() string { return d.said.String() }

// Attribute returns an attribute of a resource in the state as a JSON value, or nil if the
// resource does not exist.
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
