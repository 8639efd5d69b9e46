package provider_test

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/terraform-provider/tftest"
)

const head = `terraform {
  required_providers {
    corvo = { source = "corvo/corvo" }
  }
}
`

// TestAcceptance runs terraform against the peer, each time in a folder of its own.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	tool := tftest.Install(t)
	for name, run := range map[string]func(t *testing.T, p *peer, tool *tftest.Tool){
		"scenario":               func(t *testing.T, p *peer, tool *tftest.Tool) { tool.Scenario(t, p.URL, p.token) },
		"interrupted create":     interruptedCreate,
		"create out of time":     createOutOfTime,
		"bare node":              bareNode,
		"queue with jobs":        queueWithJobs,
		"otherwise written":      otherwiseWritten,
		"refused attributes":     refusedAttributes,
		"replicas in place":      replicasInPlace,
		"namespace behind":       namespaceBehind,
		"settings known later":   settingsKnownLater,
		"namespace of provider":  namespaceOfProvider,
		"secret that is used up": secretUsedUp,
		"queue settings":         queueSettings,
		"schedule":               scheduleLife,
		"platform":               func(t *testing.T, _ *peer, tool *tftest.Tool) { platformLife(t, tool) },
		"roles":                  func(t *testing.T, _ *peer, tool *tftest.Tool) { roleLife(t, tool) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, startPeer(t), tool)
		})
	}
}

// cloudDir returns a folder whose provider has a cloud token.
func cloudDir(t *testing.T, p *peer, tool *tftest.Tool, hcl string) *tftest.Dir {
	t.Helper()
	d := tool.Dir(t, "CORVO_ENDPOINT="+p.URL, "CORVO_CLOUD_TOKEN="+p.token)
	d.Write("main.tf", head+hcl)
	return d
}

func settled(t *testing.T, d *tftest.Dir) {
	t.Helper()
	if out, empty := d.Plan(); !empty {
		t.Fatalf("the plan is not empty:\n%s", out)
	}
}

func says(t *testing.T, out string, all ...string) {
	t.Helper()
	for _, text := range all {
		if !strings.Contains(out, text) {
			t.Errorf("terraform does not say %q:\n%s", text, out)
		}
	}
}

const mailNamespace = `
resource "corvo_namespace" "mail" { name = "mail" }
`

// An interrupt while the control plane works loses nothing: the state has the namespace, not tainted, and the
// next apply waits for it.
func interruptedCreate(t *testing.T, p *peer, tool *tftest.Tool) {
	d := cloudDir(t, p, tool, mailNamespace)
	p.hold()
	out := d.ApplyInterrupted(func() {
		if err := p.awaitWaiter(); err != nil {
			t.Error(err)
		}
	})
	says(t, out, "continues without Terraform")
	id := d.Attribute("corvo_namespace", "mail", "id")
	if id == nil {
		t.Fatalf("the namespace is not in the state:\n%s", out)
	}
	if out, empty := d.Plan(); empty || strings.Contains(out, "replaced") {
		t.Fatalf("the plan does not take the create up:\n%s", out)
	}
	// The resource keeps the operation, so that the plan needs no refresh.
	d.Setenv("TF_CLI_ARGS_plan", "-refresh=false")
	if out, empty := d.Plan(); empty || strings.Contains(out, "replaced") {
		t.Fatalf("without a refresh the plan does not take the create up:\n%s", out)
	}
	d.Setenv("TF_CLI_ARGS_plan", "")
	released := make(chan error, 1)
	go func() {
		err := p.awaitWaiter()
		p.release()
		released <- err
	}()
	d.Apply()
	if err := <-released; err != nil {
		t.Error(err)
	}
	settled(t, d)
	if now := d.Attribute("corvo_namespace", "mail", "id"); now != id {
		t.Errorf("the namespace was made twice: %v, then %v", id, now)
	}
	d.Forget("corvo_namespace.mail")
	d.Import("corvo_namespace.mail", id.(string))
	settled(t, d)
}

// A create that takes too long fails, says how to continue, and can be continued.
func createOutOfTime(t *testing.T, p *peer, tool *tftest.Tool) {
	d := cloudDir(t, p, tool, `resource "corvo_namespace" "mail" {
  name     = "mail"
  timeouts = { create = "1s" }
}`)
	p.hold()
	says(t, d.ApplyFails(), "at most 1s", "terraform untaint")
	id := d.Attribute("corvo_namespace", "mail", "id")
	d.Untaint("corvo_namespace.mail")
	p.release()
	d.Apply()
	settled(t, d)
	if now := d.Attribute("corvo_namespace", "mail", "id"); id == nil || now != id {
		t.Errorf("the namespace was made twice: %v, then %v", id, now)
	}
}

// A bare node has queues. A resource that only a cloud has reports that it needs one.
func bareNode(t *testing.T, p *peer, tool *tftest.Tool) {
	d := tool.Dir(t, "CORVO_ENDPOINT="+p.URL)
	d.Write("main.tf", head+`resource "corvo_queue" "outbox" {
  name   = "outbox"
  paused = true
}`)
	d.Apply()
	settled(t, d)
	p.look(func() {
		if q := p.node.queues["outbox"]; q == nil || !q.Paused {
			t.Errorf("the node's queue is %+v", q)
		}
	})
	d.Forget("corvo_queue.outbox")
	d.Import("corvo_queue.outbox", "outbox")
	settled(t, d)
	d.Destroy()
	p.look(func() {
		if len(p.node.queues) != 0 {
			t.Error("destroy left the queue")
		}
	})
	d.Write("main.tf", head+mailNamespace)
	says(t, d.ApplyFails(), "the provider has no cloud_token", "a bare node has one namespace", "CORVO_CLOUD_TOKEN")
	d.Write("main.tf", head+`resource "corvo_queue" "outbox" {
  name      = "outbox"
  namespace = "mail"
}`)
	says(t, d.ApplyFails(), "the provider has no cloud_token")
	d.Setenv("CORVO_ENDPOINT", "")
	d.Write("main.tf", head+`resource "corvo_queue" "outbox" { name = "outbox" }`)
	says(t, d.ApplyFails(), "the provider has no endpoint", "CORVO_ENDPOINT")
}

// The provider does not delete jobs as a side effect of deleting their queue.
func queueWithJobs(t *testing.T, p *peer, tool *tftest.Tool) {
	d := tool.Dir(t, "CORVO_ENDPOINT="+p.URL)
	d.Write("main.tf", head+`resource "corvo_queue" "outbox" { name = "outbox" }`)
	d.Apply()
	p.look(func() { p.node.queues["outbox"].Pending = 3 })
	d.Write("main.tf", head)
	says(t, d.ApplyFails(), "Cannot delete queue outbox: it has jobs", "has jobs that have not settled (3)")
	p.look(func() {
		if q := p.node.queues["outbox"]; q == nil {
			t.Fatal("the queue was deleted with its jobs")
		}
		p.node.queues["outbox"].Pending, p.node.queues["outbox"].Completed = 0, 7
	})
	d.Destroy()
}

const writtenKey = `
variable "secret" {
  type      = string
  ephemeral = true
}
variable "expires" { type = string }
variable "overlap" { type = string }
variable "version_of" { type = number }
resource "corvo_namespace" "mail" { name = "mail" }
resource "corvo_api_key" "key" {
  namespace         = corvo_namespace.mail.id
  name              = "key"
  expires_at        = var.expires
  overlap           = var.overlap
  secret_wo         = var.secret
  secret_wo_version = var.version_of
}`

// The same duration or instant in other words is no change. The provider rotates a key that expires by
// creating it anew, because a rotated key would expire at another time.
func otherwiseWritten(t *testing.T, p *peer, tool *tftest.Tool) {
	d := cloudDir(t, p, tool, writtenKey)
	first, second := newSecret(t), newSecret(t)
	d.Setenv("TF_VAR_secret", first.Text)
	d.Setenv("TF_VAR_expires", "2099-01-01T00:00:00+01:00")
	d.Setenv("TF_VAR_overlap", "60m")
	d.Setenv("TF_VAR_version_of", "1")
	d.Apply()
	settled(t, d)
	d.Setenv("TF_VAR_expires", "2098-12-31T23:00:00Z")
	d.Setenv("TF_VAR_overlap", "1h")
	settled(t, d)

	d.Setenv("TF_VAR_secret", second.Text)
	d.Setenv("TF_VAR_version_of", "2")
	d.Apply()
	settled(t, d)
	p.look(func() {
		ns, err := p.find("mail")
		if err != nil {
			t.Fatal(err)
		}
		if key, ok := ns.keys[second.ID]; !ok || key.ExpiresAt == nil {
			t.Errorf("the new key is %+v, want one that expires", key)
		}
		if _, ok := ns.keys[first.ID]; ok {
			t.Error("the old key still opens the namespace")
		}
	})
}

// The provider shows a refusal of the server at the attribute that caused it, with its code.
func refusedAttributes(t *testing.T, p *peer, tool *tftest.Tool) {
	d := cloudDir(t, p, tool, `resource "corvo_namespace" "mail" {
  name     = "mail"
  replicas = 5
}`)
	says(t, d.ApplyFails(), "Cannot create namespace mail: VALIDATION_ERROR", "replicas = 5", "is more than there are hosts")

	d.Write("main.tf", head+mailNamespace+`
ephemeral "corvo_api_key" "key" {}
resource "corvo_api_key" "key" {
  namespace         = corvo_namespace.mail.id
  name              = "key"
  queue_scope       = ["["]
  secret_wo         = ephemeral.corvo_api_key.key.secret
  secret_wo_version = 1
}`)
	says(t, d.ApplyFails(), "Cannot create API key key: VALIDATION_ERROR", "queue_scope", "is no queue's name")
	d.Write("main.tf", head+`resource "corvo_api_key" "key" {
  name              = "key"
  secret_wo         = "not a key"
  secret_wo_version = 1
  overlap           = "soon"
  expires_at        = "tomorrow"
}`)
	says(t, d.ApplyFails(), "this is not a namespace's API key", `"soon" is not a duration`, `"tomorrow" is not an RFC 3339 time`)

	d.Write("main.tf", head+`resource "corvo_namespace" "mail" {
  name                = "mail"
  deletion_protection = true
}`)
	d.Apply()
	d.Write("main.tf", head)
	says(t, d.ApplyFails(), "Cannot delete namespace mail: STATE_CONFLICT", "deletion_protection")
}

// Another number of replicas changes the namespace and keeps it, because a new one would lose its data.
func replicasInPlace(t *testing.T, p *peer, tool *tftest.Tool) {
	d := cloudDir(t, p, tool, mailNamespace)
	d.Apply()
	before := d.Attribute("corvo_namespace", "mail", "id")
	d.Write("main.tf", head+`resource "corvo_namespace" "mail" {
  name     = "mail"
  replicas = 3
}`)
	d.Apply()
	settled(t, d)
	if after := d.Attribute("corvo_namespace", "mail", "id"); after != before {
		t.Errorf("namespace %s was replaced by %s", before, after)
	}
	p.look(func() {
		if ns, err := p.find("mail"); err != nil || ns.Spec.Replicas != 3 {
			t.Errorf("the namespace is %+v, %v", ns, err)
		}
	})
}

// If a namespace was deleted behind terraform's back, its resources leave the state with it, and the next
// apply creates them all again.
func namespaceBehind(t *testing.T, p *peer, tool *tftest.Tool) {
	d := cloudDir(t, p, tool, mailNamespace+`
resource "corvo_queue" "outbox" {
  namespace = corvo_namespace.mail.id
  name      = "outbox"
}
resource "corvo_schedule" "digest" {
  namespace = corvo_namespace.mail.id
  name      = "digest"
  queue     = corvo_queue.outbox.name
  cron      = "@hourly"
}
ephemeral "corvo_api_key" "key" {}
resource "corvo_api_key" "key" {
  namespace         = corvo_namespace.mail.id
  name              = "key"
  secret_wo         = ephemeral.corvo_api_key.key.secret
  secret_wo_version = 1
}`)
	d.Apply()
	before := d.Attribute("corvo_namespace", "mail", "id")
	p.look(func() {
		for _, ns := range p.namespaces {
			ns.Status.Phase = api.NamespaceDeleting
		}
	})
	if out, _ := d.Plan(); !strings.Contains(out, "4 to add, 0 to change, 0 to destroy") {
		t.Errorf("terraform does not see that the namespace is being deleted:\n%s", out)
	}
	p.look(func() { clear(p.namespaces) })
	d.Apply()
	settled(t, d)
	if d.Attribute("corvo_namespace", "mail", "id") == before {
		t.Error("the namespace was not made again")
	}
	d.Destroy()
}

// A provider whose settings come from resources plans as far as it can, and names the setting that it does
// not know yet.
func settingsKnownLater(t *testing.T, p *peer, tool *tftest.Tool) {
	const later = `
variable "token" {}
variable "wave" { default = 1 }
resource "terraform_data" "token" {
  input            = var.token
  triggers_replace = var.wave
}
provider "corvo" { cloud_token = terraform_data.token.output }
resource "corvo_namespace" "mail" { name = "mail" }
`
	d := cloudDir(t, p, tool, later)
	d.Setenv("CORVO_CLOUD_TOKEN", "")
	d.Setenv("TF_VAR_token", p.token)
	d.Apply()
	settled(t, d)
	d.Setenv("TF_VAR_wave", "2") // the token is now unknown again
	says(t, d.ApplyFails(), "the provider's cloud_token is not known yet", "-target")
}

// Resources that name no namespace are in the provider's. If the token sees several organisations, the
// provider must name one.
func namespaceOfProvider(t *testing.T, p *peer, tool *tftest.Tool) {
	p.look(func() { p.orgs = append(p.orgs, "org_2") })
	d := cloudDir(t, p, tool, mailNamespace)
	says(t, d.ApplyFails(), "the provider has no organization", "sees 2 organisations")
	d.Write("main.tf", head+`provider "corvo" { organization = "org_1" }`+mailNamespace)
	d.Apply()

	queue := `resource "corvo_queue" "outbox" { name = "outbox" }
resource "corvo_schedule" "digest" {
  name  = "digest"
  queue = "outbox"
  cron  = "@hourly"
}`
	d.Write("main.tf", head+`provider "corvo" { organization = "org_1" }`+mailNamespace+queue)
	says(t, d.ApplyFails(), "no namespace is named")
	d.Setenv("CORVO_NAMESPACE", "mail")
	d.Apply()
	settled(t, d)
	if got := d.Attribute("corvo_queue", "outbox", "namespace"); got != "mail" {
		t.Errorf("the queue's namespace is %v, want the provider's", got)
	}
	// Its id is another name of the same namespace.
	d.Setenv("CORVO_NAMESPACE", d.Attribute("corvo_namespace", "mail", "id").(string))
	if out := d.Apply(); !strings.Contains(out, "0 to add, 2 to change, 0 to destroy") {
		t.Errorf("another name of the same namespace is more than an update:\n%s", out)
	}
	d = tool.Dir(t, "CORVO_ENDPOINT="+p.URL, "CORVO_API_KEY=some", "CORVO_NAMESPACE=mail")
	d.Write("main.tf", head+queue)
	says(t, d.ApplyFails(), "needs cloud_token")
}

// The provider refuses a rotation to the secret in use, because it would only end that secret.
func secretUsedUp(t *testing.T, p *peer, tool *tftest.Tool) {
	d := cloudDir(t, p, tool, strings.Replace(writtenKey, "var.expires", "null", 1))
	d.Setenv("TF_VAR_secret", newSecret(t).Text)
	d.Setenv("TF_VAR_expires", "")
	d.Setenv("TF_VAR_overlap", "0s")
	d.Setenv("TF_VAR_version_of", "1")
	d.Apply()
	d.Setenv("TF_VAR_version_of", "2")
	says(t, d.ApplyFails(), "secret_wo is the present key")
	d.Setenv("TF_VAR_version_of", "1")
	settled(t, d)
}
