package allinone

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// EnvFile is the file below the data directory with the endpoint and credentials of a development cloud, for
// `source` and for tools that read such files.
const EnvFile = "dev.env"

// demo is the name of the first organisation and of its first namespace.
const demo = "demo"

// Access holds the endpoint and credentials that a user needs to speak to a cloud.
type Access struct {
	Endpoint   string
	APIKey     string // of the namespace demo, with all rights
	CloudToken string // of the organisation demo, with all rights
	First      bool   // this start created it
}

// Variables in EnvFile.
const (
	endpointVar = "CORVO_ENDPOINT"
	apiKeyVar   = "CORVO_API_KEY"
	tokenVar    = "CORVO_CLOUD_TOKEN"
)

// provision creates the first organisation, namespace, token and key through the cloud API, as any user
// would. It writes EnvFile last: without the file, a start finishes the work of an earlier one; with it, a
// start creates nothing again that the user may have deleted.
func provision(ctx context.Context, dataDir, endpoint, operator string) (Access, error) {
	path := filepath.Join(dataDir, EnvFile)
	access, err := readAccess(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if access, err = makeAccess(ctx, dataDir, endpoint, operator); err != nil {
			return Access{}, err
		}
		access.First = true
	case err != nil:
		return Access{}, err
	}
	if access.Endpoint == endpoint && !access.First {
		return access, nil
	}
	access.Endpoint = endpoint // another --bind than last time
	return access, access.write(path)
}

func makeAccess(ctx context.Context, dataDir, endpoint, operator string) (access Access, err error) {
	if access.CloudToken, err = Secret(filepath.Join(dataDir, secretsDir, "demo-token"), keyring.Org); err != nil {
		return access, err
	}
	if access.APIKey, err = Secret(filepath.Join(dataDir, secretsDir, "demo-key"), keyring.Namespace); err != nil {
		return access, err
	}
	cloud, err := client.NewCloud(endpoint, operator, client.WithKeyedWrites())
	if err != nil {
		return access, err
	}
	defer cloud.Close()
	org, err := cloud.CreateOrg(ctx, api.CreateOrgRequest{Name: demo})
	if api.CodeOf(err) == api.Conflict {
		org, err = cloud.Org(ctx, demo)
	}
	if err != nil {
		return access, err
	}
	if err := ensure(cloud.CreateToken(ctx, org.ID, given("dev", access.CloudToken))); err != nil {
		return access, fmt.Errorf("cloud token: %w", err)
	}
	ns, err := makeNamespace(ctx, cloud, org.ID)
	if err != nil {
		return access, err
	}
	if err := ensure(cloud.CreateNamespaceKey(ctx, ns, given("dev", access.APIKey))); err != nil {
		return access, fmt.Errorf("API key: %w", err)
	}
	return access, nil
}

// makeNamespace creates the namespace, or finds the one that an earlier start began to create, and waits for
// its operation.
func makeNamespace(ctx context.Context, cloud *client.Cloud, org string) (id string, err error) {
	op, err := cloud.CreateNamespace(ctx, org, api.CreateNamespaceRequest{Name: demo})
	if api.CodeOf(err) != api.Conflict {
		if err == nil {
			op, err = cloud.WaitOperation(ctx, op.ID)
		}
		return op.Resource.ID, err
	}
	all, err := cloud.Namespaces(ctx, org)
	if err != nil {
		return "", err
	}
	for _, ns := range all {
		if ns.Name != demo {
			continue
		}
		if ns.Status.Operation != "" {
			_, err = cloud.WaitOperation(ctx, ns.Status.Operation)
		}
		return ns.ID, err
	}
	return "", fmt.Errorf("the namespace %s does not exist and cannot be created", demo)
}

// given builds the request for a credential whose secret already exists.
func given(name, text string) api.CreateCloudKeyRequest {
	_, id, _ := keyring.Parse(text)
	hash := keyring.Hash(text)
	return api.CreateCloudKeyRequest{
		CreateKeyRequest: api.CreateKeyRequest{Name: name, Roles: []string{string(tenancy.Admin)}},
		ID:               id,
		Hash:             hex.EncodeToString(hash[:]),
	}
}

// ensure accepts an existing credential, because its id is random, so that only an earlier start can have
// created it.
func ensure(_ api.CloudKey, err error) error {
	if api.CodeOf(err) == api.Conflict {
		return nil
	}
	return err
}

// worksRetries is how often works repeats its request until the namespace is open, which takes about a
// minute.
const worksRetries = 30

// works waits until the namespace accepts its key. An error says why it never will.
func (a Access) works(ctx context.Context) error {
	c, err := client.New(a.Endpoint, a.APIKey, client.WithRetries(worksRetries))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Queues(ctx, client.Read{})
	return err
}

func (a Access) write(path string) error {
	text := fmt.Sprintf("%s=%s\n%s=%s\n%s=%s\n", endpointVar, a.Endpoint, apiKeyVar, a.APIKey, tokenVar, a.CloudToken)
	return durable.WriteFile(path, []byte(text), 0o600)
}

// holds reports whether a text is a credential of a kind.
func holds(text string, kind keyring.Kind) bool {
	got, _, ok := keyring.Parse(text)
	return ok && got == kind
}

func readAccess(path string) (a Access, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	fields := map[string]*string{endpointVar: &a.Endpoint, apiKeyVar: &a.APIKey, tokenVar: &a.CloudToken}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if field := fields[name]; field != nil {
			*field = value
		}
	}
	if a.Endpoint == "" || !holds(a.APIKey, keyring.Namespace) || !holds(a.CloudToken, keyring.Org) {
		return a, fmt.Errorf("%s lacks one of %s, %s, %s, or one is damaged: remove %s and start again; the file is rewritten with the same key and token",
			path, endpointVar, apiKeyVar, tokenVar, path)
	}
	return a, nil
}
