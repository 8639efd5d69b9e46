package provider

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// session holds the provider's configuration for all resources of a run.
type session struct {
	endpoint, apiKey, cloudToken, namespace, organization setting

	http *http.Client // shared by all clients, with its connections

	mu         sync.Mutex // guards the fields below; held during the request that fills them
	org        string     // "" until it is looked up
	namespaces map[string]api.Namespace
}

// setting is one of the provider's attributes.
type setting struct {
	name        string // name of the attribute
	environment string // environment variable with a default; "" = none
	value       string // "" = missing
	unknown     bool   // the value depends on a resource that does not exist yet
}

func newSetting(name, environment string, v types.String) setting {
	s := setting{name: name, environment: environment, value: v.ValueString(), unknown: v.IsUnknown()}
	if v.IsNull() && environment != "" {
		s.value = os.Getenv(environment)
	}
	return s
}

func (s setting) set() bool { return s.value != "" || s.unknown }

// need returns the setting's value, or an error that says how to set it.
func (s setting) need(why string) (string, error) {
	switch {
	case s.unknown:
		return "", &configError{"the provider's " + s.name + " is not known yet", why + " " + s.name + " depends on a resource that does not exist yet: apply that resource first, with -target, or give " + s.name + " a value that is known when Terraform plans."}
	case s.value == "" && s.environment == "":
		return "", &configError{"the provider has no " + s.name, why + " Set " + s.name + " in the provider's configuration."}
	case s.value == "":
		return "", &configError{"the provider has no " + s.name, why + " Set " + s.name + " in the provider's configuration, or " + s.environment + " in the environment."}
	}
	return s.value, nil
}

// configError is a fault of the provider's configuration that a resource found.
type configError struct{ summary, detail string }

func (e *configError) Error() string { return e.summary + ": " + e.detail }

func newSession(m providerModel) *session {
	return &session{
		endpoint:     newSetting("endpoint", "CORVO_ENDPOINT", m.Endpoint),
		apiKey:       newSetting("api_key", "CORVO_API_KEY", m.APIKey),
		cloudToken:   newSetting("cloud_token", "CORVO_CLOUD_TOKEN", m.CloudToken),
		namespace:    newSetting("namespace", "CORVO_NAMESPACE", m.Namespace),
		organization: newSetting("organization", "", m.Organization),
		http:         &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
		namespaces:   map[string]api.Namespace{},
	}
}

// configured is embedded in resources that need the session.
type configured struct{ session *session }

// Configure stores the session. Terraform calls it without data before the provider is
// configured.
func (c *configured) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	c.session, _ = req.ProviderData.(*session)
}

const (
	whyEndpoint = "Corvo has to be somewhere."
	whyCloud    = "Namespaces and their API keys are resources of a cloud, and so is what names a namespace; a bare node has one namespace and keys of its own (corvo keys)."
)

// cloud makes a client of the control plane.
func (s *session) cloud() (*client.Cloud, error) {
	token, err := s.cloudToken.need(whyCloud)
	if err != nil {
		return nil, err
	}
	endpoint, err := s.endpoint.need(whyEndpoint)
	if err != nil {
		return nil, err
	}
	c, err := client.NewCloud(endpoint, token, client.WithHTTPClient(s.http), client.WithKeyedWrites())
	if err != nil {
		return nil, &configError{"the provider's endpoint is not usable", err.Error()}
	}
	return c, nil
}

// organisation returns the organisation for new namespaces.
func (s *session) organisation(ctx context.Context, cloud *client.Cloud) (string, error) {
	if s.organization.set() {
		return s.organization.need("Namespaces are made in an organisation.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.org != "" {
		return s.org, nil
	}
	orgs, err := cloud.Orgs(ctx)
	if err != nil {
		return "", err
	}
	if len(orgs) != 1 {
		return "", &configError{"the provider has no organization", fmt.Sprintf("The cloud token sees %d organisations. Set organization in the provider's configuration.", len(orgs))}
	}
	s.org = orgs[0].ID
	return s.org, nil
}

// findNamespace finds a namespace by id or name. For a namespace that is being deleted it
// returns NOT_FOUND.
func (s *session) findNamespace(ctx context.Context, idOrName string) (api.Namespace, error) {
	cloud, err := s.cloud()
	if err != nil {
		return api.Namespace{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ns, ok := s.namespaces[idOrName]; ok {
		return ns, nil
	}
	ns, err := cloud.Namespace(ctx, idOrName)
	if err != nil {
		return ns, err
	}
	if ns.Status.Phase == api.NamespaceDeleting {
		return ns, api.Errorf(api.NotFound, "namespace %s is being deleted", idOrName)
	}
	s.namespaces[idOrName] = ns
	return ns, nil
}

// forgetNamespace drops a namespace from the cache after a change.
func (s *session) forgetNamespace(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, ns := range s.namespaces {
		if ns.ID == id {
			delete(s.namespaces, k)
		}
	}
}

// dataPlane makes a client of a namespace's data plane; "" stands for the API key's
// namespace.
func (s *session) dataPlane(ctx context.Context, namespace string) (*client.Client, error) {
	if namespace != "" {
		ns, err := s.findNamespace(ctx, namespace)
		if err != nil {
			return nil, err
		}
		at := ns.Status.Endpoint
		if at == "" {
			at = s.endpoint.value
		}
		return client.New(at, s.cloudToken.value, client.WithHTTPClient(s.http), client.WithNamespace(ns.ID))
	}
	endpoint, err := s.endpoint.need(whyEndpoint)
	if err != nil {
		return nil, err
	}
	if s.apiKey.unknown {
		_, err := s.apiKey.need("What names no namespace is in that of the API key.")
		return nil, err
	}
	if s.cloudToken.set() && !s.apiKey.set() {
		return nil, &configError{"no namespace is named", "A cloud token gives access to every namespace of its organisation. Set namespace in the resource or in the provider's configuration, or CORVO_NAMESPACE in the environment."}
	}
	// Without a key, an open node answers, and another node says which credential it needs.
	c, err := client.New(endpoint, s.apiKey.value, client.WithHTTPClient(s.http))
	if err != nil {
		return nil, &configError{"the provider's endpoint is not usable", err.Error()}
	}
	return c, nil
}

// defaultNamespace returns the namespace of resources that name none, or null if the API
// key decides.
func (s *session) defaultNamespace() (types.String, error) {
	switch {
	case s.namespace.unknown:
		return types.StringUnknown(), nil
	case s.namespace.value == "":
		return types.StringNull(), nil
	case !s.cloudToken.set():
		return types.StringNull(), &configError{"the provider's namespace needs cloud_token", "An API key gives access to one namespace, which may differ from " + s.namespace.value + ". Remove namespace (or CORVO_NAMESPACE from the environment), or set cloud_token (or CORVO_CLOUD_TOKEN)."}
	}
	return types.StringValue(s.namespace.value), nil
}

// sameNamespace reports whether two ids or names mean one namespace. It returns false if
// the lookup fails.
func (s *session) sameNamespace(ctx context.Context, a, b string) bool {
	if a == b {
		return true
	}
	if a == "" || b == "" {
		return false
	}
	nsA, err := s.findNamespace(ctx, a)
	if err != nil {
		return false
	}
	nsB, err := s.findNamespace(ctx, b)
	return err == nil && nsA.ID == nsB.ID
}

// writeLimit bounds a write that an interrupt does not cancel.
const writeLimit = 2 * client.DefaultTimeout

// finish makes the context of a write whose outcome must be known. An interrupt of
// Terraform does not cancel it, so that no resource exists without a state.
func finish(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
}
