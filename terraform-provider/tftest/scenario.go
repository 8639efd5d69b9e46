package tftest

import (
	"context"
	"encoding/base64"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/terraform-provider/examples"
)

// changeTimeout bounds the time until a change reaches every part of a cloud.
const changeTimeout = time.Minute

// scene is a run of the scenario.
type scene struct {
	*Dir
	t       *testing.T
	cloud   *client.Cloud
	secrets []string // the text of every key so far
	states  strings.Builder

	endpoint, token string
	gateway         string // URL of the namespace's data plane
}

// scenarioNamespace is the name of the scenario's namespace.
const scenarioNamespace = "terraform-scenario"

// Scenario applies the example to a cloud and takes it through its life: create, update in
// place, drift, rotation with and without overlap, import, destroy. After each step a plan
// must be empty, and no state, plan or output may contain a secret. The token's
// organisation must have no namespace with the scenario's name.
func (tool *Tool) Scenario(t *testing.T, endpoint, cloudToken string) {
	t.Helper()
	cloud, err := client.NewCloud(endpoint, cloudToken)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	s := &scene{t: t, cloud: cloud, endpoint: endpoint, token: cloudToken}
	s.Dir = tool.Dir(t, "CORVO_ENDPOINT="+endpoint, "CORVO_CLOUD_TOKEN="+cloudToken, "TF_VAR_namespace="+scenarioNamespace)
	s.Write("main.tf", examples.Main)

	s.create()
	s.update()
	s.drift()
	s.rotate()
	s.imports()
	s.destroy()
	s.leakNothing()
}

func (s *scene) create() {
	s.t.Helper()
	s.Apply()
	s.settled("create")
	ns := s.namespace()
	if ns.Status.Phase != api.NamespaceActive {
		s.t.Errorf("after the apply the namespace is %s, not active", ns.Status.Phase)
	}
	if s.gateway = ns.Status.Endpoint; s.gateway == "" {
		s.gateway = s.endpoint
	}
	if most := s.queue().MaxConcurrency; most == nil || *most != 10 {
		s.t.Errorf("max_concurrency = %v, want 10", most)
	}
	s.opens(s.handedOver())
}

// update changes attributes in place, without a replacement.
func (s *scene) update() {
	s.t.Helper()
	before, key, schedule := s.id("corvo_namespace", "mail"), s.id("corvo_api_key", "worker"), s.id("corvo_schedule", "digest")
	s.Setenv("TF_VAR_digest", "30 7 * * mon-fri")
	s.Setenv("TF_VAR_max_concurrency", "20")
	s.Setenv("TF_VAR_deletion_protection", "true")
	s.applies("0 to add, 3 to change, 0 to destroy")
	s.Setenv("TF_VAR_digest", "30  7 * * MON-FRI") // another spelling of the same value
	s.settled("update")
	if s.id("corvo_namespace", "mail") != before || s.id("corvo_api_key", "worker") != key || s.id("corvo_schedule", "digest") != schedule {
		s.t.Error("an update in place replaced a resource")
	}
	if !s.namespace().Spec.DeletionProtection {
		s.t.Error("deletion_protection is not on")
	}
	if most := s.queue().MaxConcurrency; most == nil || *most != 20 {
		s.t.Errorf("max_concurrency = %v, want 20", most)
	}
	if now := s.schedule(); now.Cron != "30 7 * * mon-fri" || now.Version != 2 {
		s.t.Errorf("the schedule is %+v", now)
	}
}

// drift changes and deletes resources outside terraform, which must detect and repair it.
func (s *scene) drift() {
	s.t.Helper()
	ctx := s.t.Context()
	data := s.dataPlane()
	paused := true
	_, err := data.PutQueue(ctx, "outbox", api.PutQueueRequest{Paused: &paused})
	s.must(err)
	s.must(data.PauseSchedule(ctx, s.id("corvo_schedule", "digest")))
	s.Setenv("TF_VAR_deletion_protection", "false")
	s.applies("0 to add, 3 to change, 0 to destroy")
	q := s.queue()
	if q.Paused || q.Defaults == nil || q.Retention == nil {
		s.t.Errorf("the queue is still %+v", q)
	}
	if q.RateLimit == nil || *q.RateLimit != 100 {
		s.t.Errorf("the queue still has the rate limit %v", q.RateLimit)
	}
	if s.schedule().Paused {
		s.t.Error("the schedule is still paused")
	}

	s.must(data.DeleteSchedule(ctx, s.id("corvo_schedule", "digest"), 0))
	s.must(data.DeleteQueue(ctx, "outbox", false))
	s.must(s.cloud.RevokeNamespaceKey(ctx, s.id("corvo_namespace", "mail"), s.id("corvo_api_key", "worker"), 0))
	// The fourth resource is the file that passes the key on.
	s.applies("4 to add, 0 to change, 1 to destroy")
	s.settled("drift")
	s.opens(s.handedOver())
}

// rotate replaces the key. Workers with the old key continue during the overlap and stop
// without one.
func (s *scene) rotate() {
	s.t.Helper()
	first := s.handedOver()
	s.Setenv("TF_VAR_key_version", "2")
	s.Setenv("TF_VAR_key_overlap", "1h")
	if _, empty := s.Plan(); empty {
		s.t.Fatal("terraform sees nothing to do for a new version of the secret")
	}
	s.ShowPlan()
	s.applies("1 to add, 1 to change, 1 to destroy")
	s.settled("rotation")
	second := s.handedOver()
	if first == second {
		s.t.Fatal("a rotation left the key as it was")
	}
	s.opens(second)
	s.opens(first) // during its overlap

	s.Setenv("TF_VAR_key_version", "3")
	s.Setenv("TF_VAR_key_overlap", "0s")
	s.applies("1 to add, 1 to change, 1 to destroy")
	s.settled("rotation without overlap")
	s.opens(s.handedOver())
	s.shut(second)
}

// imports makes terraform forget all resources and import them again.
func (s *scene) imports() {
	s.t.Helper()
	ns, key, schedule := s.id("corvo_namespace", "mail"), s.id("corvo_api_key", "worker"), s.id("corvo_schedule", "digest")
	s.Forget("corvo_namespace.mail", "corvo_queue.outbox", "corvo_schedule.digest", "corvo_api_key.worker")
	s.Import("corvo_namespace.mail", scenarioNamespace)
	s.Import("corvo_queue.outbox", ns+"/outbox")
	s.Import("corvo_schedule.digest", ns+"/"+schedule)
	// The import uses the namespace's name, the configuration its id.
	s.Import("corvo_api_key.worker", scenarioNamespace+"/"+key)
	// Only the state has timeouts and the secret's version, so updates that send nothing
	// store them.
	s.applies("0 to add, 2 to change, 0 to destroy")
	s.settled("import")
	if s.id("corvo_namespace", "mail") != ns || s.id("corvo_api_key", "worker") != key {
		s.t.Error("after its import a resource was replaced")
	}
	s.opens(s.handedOver())
}

func (s *scene) destroy() {
	s.t.Helper()
	last, ns := s.handedOver(), s.id("corvo_namespace", "mail")
	s.Destroy()
	if _, err := s.cloud.Namespace(s.t.Context(), ns); !errors.Is(err, &api.Error{Code: api.NotFound}) {
		s.t.Errorf("after destroy the namespace answers %v", err)
	}
	s.shut(last)
}

// leakNothing searches all output and files of terraform for every secret.
func (s *scene) leakNothing() {
	s.t.Helper()
	written := map[string]string{"the output": s.Said(), "a state": s.states.String() + unwrapped(s.t, s.Read("terraform.tfstate.backup"))}
	for _, text := range append(s.secrets, s.token) {
		secrets := map[string]string{"a secret": text}
		if read, err := client.ReadSecret(text); err == nil {
			secrets["a secret's hash"] = read.Hash
		}
		for what, secret := range secrets {
			for where, text := range written {
				if strings.Contains(text, secret) {
					s.t.Errorf("%s is in %s", what, where)
				}
			}
		}
	}
}

// settled checks that a plan is empty, and keeps the state for leakNothing.
func (s *scene) settled(after string) {
	s.t.Helper()
	s.handedOver()
	if out, empty := s.Plan(); !empty {
		s.t.Fatalf("after %s the plan is not empty:\n%s", after, out)
	}
	s.states.WriteString(unwrapped(s.t, s.State()))
}

var (
	privateState = regexp.MustCompile(`"private": "([^"]*)"`)
	base64Text   = regexp.MustCompile(`[A-Za-z0-9+/]{8,}=*`)
)

// unwrapped returns a state file followed by its decoded private parts. Each is base64 of a JSON object whose
// values are base64 again; unwrapped decodes both.
func unwrapped(t *testing.T, state []byte) string {
	t.Helper()
	all := string(state)
	for _, found := range privateState.FindAllSubmatch(state, -1) {
		outer, err := base64.StdEncoding.DecodeString(string(found[1]))
		if err != nil {
			t.Fatalf("private state: %v", err)
		}
		all += "\n" + string(outer)
		for _, text := range base64Text.FindAllString(string(outer), -1) {
			// A part that is not base64 was written in clear.
			if inner, err := base64.StdEncoding.DecodeString(text); err == nil {
				all += "\n" + string(inner)
			}
		}
	}
	return all
}

// applies runs an apply and checks the number of changes.
func (s *scene) applies(plan string) {
	s.t.Helper()
	if out := s.Apply(); !strings.Contains(out, "Plan: "+plan) {
		s.t.Fatalf("want a plan with %s:\n%s", plan, out)
	}
}

// handedOver returns the workers' key from the file that the example writes.
func (s *scene) handedOver() string {
	s.t.Helper()
	text := string(s.Read("worker.key"))
	if _, err := client.ReadSecret(text); err != nil {
		s.t.Fatalf("%s: %v", filepath.Join(s.Path, "worker.key"), err)
	}
	s.secrets = append(s.secrets, text)
	return text
}

func (s *scene) id(resourceType, name string) string {
	s.t.Helper()
	id, ok := s.Attribute(resourceType, name, "id").(string)
	if !ok || id == "" {
		s.t.Fatalf("%s.%s is not in the state", resourceType, name)
	}
	return id
}

func (s *scene) namespace() api.Namespace {
	s.t.Helper()
	ns, err := s.cloud.Namespace(s.t.Context(), s.id("corvo_namespace", "mail"))
	s.must(err)
	return ns
}

func (s *scene) dataPlane() *client.Client {
	s.t.Helper()
	c, err := client.New(s.gateway, s.token, client.WithNamespace(scenarioNamespace))
	s.must(err)
	s.t.Cleanup(c.Close)
	return c
}

func (s *scene) queue() api.Queue {
	s.t.Helper()
	q, err := s.dataPlane().Queue(s.t.Context(), "outbox", client.Read{Strong: true})
	s.must(err)
	return q
}

func (s *scene) schedule() api.Schedule {
	s.t.Helper()
	now, err := s.dataPlane().Schedule(s.t.Context(), s.id("corvo_schedule", "digest"), client.Read{Strong: true})
	s.must(err)
	return now
}

// ask requests the queue from the data plane with a worker's key.
func (s *scene) ask(ctx context.Context, key string) error {
	c, err := client.New(s.gateway, key)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Queue(ctx, "outbox", client.Read{})
	return err
}

// opens waits until a key gives access to its namespace.
func (s *scene) opens(key string) {
	s.t.Helper()
	s.until("the key to open the queue", func(err error) bool { return err == nil }, key)
}

// shut waits until a key gives no access.
func (s *scene) shut(key string) {
	s.t.Helper()
	s.until("the key to be refused", func(err error) bool { return api.CodeOf(err) == api.Unauthorized }, key)
}

func (s *scene) until(what string, done func(error) bool, key string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), changeTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for last := error(nil); ; {
		err := s.ask(ctx, key)
		if done(err) {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			s.t.Fatalf("waited %s for %s; the last answer is %v", changeTimeout, what, last)
		}
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
