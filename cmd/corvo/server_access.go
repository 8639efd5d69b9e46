package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// remote holds the flags with which a command reaches a server and formats its answer. A flag overrides the
// environment, which overrides a profile.
type remote struct {
	endpoint       string
	apiKey         string
	apiKeyFile     string
	cloudTokenFile string
	namespace      string
	profile        string
	output         string
	formats        []string // of the output, besides the table and JSON
}

const (
	defaultEndpoint = "http://127.0.0.1:8080"

	outputTable = "table"
	outputJSON  = "json"
)

// bind adds the flags to a command and its subcommands.
func (r *remote) bind(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	bindText(flags, &r.endpoint, "endpoint", "URL of a node or of the cloud; or CORVO_ENDPOINT (default "+defaultEndpoint+")")
	bindText(flags, &r.apiKeyFile, "api-key-file", "file with the API key, - for stdin; or CORVO_API_KEY")
	bindText(flags, &r.apiKey, "api-key", "API key, visible in the process list; prefer --api-key-file or CORVO_API_KEY")
	bindText(flags, &r.cloudTokenFile, "cloud-token-file", "file with a cloud token, - for stdin; or CORVO_CLOUD_TOKEN or corvo login")
	bindText(flags, &r.namespace, "namespace", "namespace to use with a cloud token; or CORVO_NAMESPACE")
	bindText(flags, &r.profile, "profile", "profile to use (see corvo profiles); or CORVO_PROFILE")
	r.bindOutput(cmd)
	completeFlag(cmd, "profile", completeProfiles)
}

// bindOutput adds only the --output flag, for commands that send no request.
func (r *remote) bindOutput(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&r.output, "output", outputTable, "output format: "+outputTable+" or "+outputJSON)
	completeFlag(cmd, "output", oneOf(outputTable, outputJSON))
}

// checkOutput refuses an unknown output format.
func (r *remote) checkOutput() error {
	formats := append([]string{outputTable, outputJSON}, r.formats...)
	if !slices.Contains(formats, r.output) {
		return misusef("--output is %q; it must be %s", r.output, strings.Join(formats, " or "))
	}
	return nil
}

// access is a server with the credentials for it.
type access struct {
	endpoint, apiKey, cloudToken, namespace string

	// leftOut explains why a profile's secrets were not used, for the error of a server that wants one. It is
	// "" if they were used or the profile has none.
	leftOut string
}

// access resolves flags, environment and profile. A command calls it once, because stdin yields a secret only
// the first time.
func (r *remote) access() (a access, err error) {
	if r.apiKey != "" && r.apiKeyFile != "" {
		return a, misusef("--api-key and --api-key-file are both given: give one of them")
	}
	a, p, err := r.open()
	if err != nil {
		return a, err
	}
	if a.apiKey, err = secretOf("api-key", r.apiKey, r.apiKeyFile, "CORVO_API_KEY", p.APIKey, p.APIKeyFile); err != nil {
		return a, err
	}
	a.cloudToken, err = secretOf("cloud-token", "", r.cloudTokenFile, "CORVO_CLOUD_TOKEN", p.CloudToken, p.CloudTokenFile)
	return a, err
}

// open resolves everything but the secrets. It returns the profile, which is empty if a flag or the
// environment names another server than the profile's.
func (r *remote) open() (a access, p profile, err error) {
	all, err := readProfiles()
	if err != nil {
		return a, p, err
	}
	name := cmp.Or(r.profile, os.Getenv("CORVO_PROFILE"), all.Current)
	if p, err = all.named(name); err != nil {
		return a, p, err
	}
	// A profile's secrets go to the profile's own server, never to another that a flag or a variable names.
	if first := cmp.Or(r.endpoint, os.Getenv("CORVO_ENDPOINT")); first != "" && !sameEndpoint(first, cmp.Or(p.Endpoint, defaultEndpoint)) {
		if r.profile != "" && r.endpoint == "" {
			return a, p, misusef("--profile %s is for %s, but CORVO_ENDPOINT is %s: unset the variable or give --endpoint", r.profile, cmp.Or(p.Endpoint, defaultEndpoint), first)
		}
		if p.hasSecrets() {
			a.leftOut = fmt.Sprintf("; the secrets of profile %s were not sent, because they are for %s and the endpoint is %s", name, cmp.Or(p.Endpoint, defaultEndpoint), first)
		}
		p = profile{}
	}
	a.endpoint = cmp.Or(r.endpoint, os.Getenv("CORVO_ENDPOINT"), p.Endpoint, defaultEndpoint)
	a.namespace = cmp.Or(r.namespace, os.Getenv("CORVO_NAMESPACE"), p.Namespace)
	if err := fitsHeader(a.namespace); err != nil {
		return a, p, misusef("the namespace of --namespace, CORVO_NAMESPACE or the profile: %w", err)
	}
	return a, p, nil
}

// namesSecret reports whether a flag or the environment names a secret.
func (r *remote) namesSecret() bool {
	return cmp.Or(r.apiKey, r.apiKeyFile, r.cloudTokenFile, os.Getenv("CORVO_API_KEY"), os.Getenv("CORVO_CLOUD_TOKEN")) != ""
}

// sameEndpoint reports whether two URLs name the same server. The case of scheme and host does not matter.
func sameEndpoint(a, b string) bool { return sameForm(a) == sameForm(b) }

func sameForm(endpoint string) string {
	endpoint = strings.TrimRight(endpoint, "/")
	u, err := url.Parse(endpoint) // lowers the case of the scheme
	if err != nil {
		return endpoint
	}
	u.Host = strings.ToLower(u.Host)
	return u.String()
}

// secretOf returns a secret: the flag's, else the environment's, else the profile's.
func secretOf(name, flag, flagFile, variable, kept, keptFile string) (text string, err error) {
	from := ""
	switch {
	case flagFile != "":
		from = "--" + name + "-file " + flagFile
		text, err = credential.read(flagFile)
	case flag != "":
		from, text, err = "--"+name, flag, fitsHeader(flag)
	case os.Getenv(variable) != "":
		from, text, err = variable, os.Getenv(variable), fitsHeader(os.Getenv(variable))
	case kept != "":
		from, text, err = name+" of the profile", kept, fitsHeader(kept)
	case keptFile != "":
		from = name + "-file " + keptFile + " of the profile"
		text, err = credential.read(keptFile)
	}
	if err != nil {
		return "", misusef("%s: %w", from, err)
	}
	return text, nil
}

// choose keeps either the API key or the cloud login: the one that the flags name, else the one that the
// environment names, else both. A command with an explicit key thus never acts as the login of a profile.
// Both variables with a secret may be set, because the key serves jobs and the token serves corvo cloud.
func (r *remote) choose(a *access) error {
	key, token, namespace := r.apiKey != "" || r.apiKeyFile != "", r.cloudTokenFile != "", r.namespace != ""
	if key && (token || namespace) {
		return misusef("an API key belongs to one namespace: leave out --api-key and --api-key-file, or --cloud-token-file and --namespace")
	}
	if !key && !token && !namespace {
		key, token, namespace = os.Getenv("CORVO_API_KEY") != "", os.Getenv("CORVO_CLOUD_TOKEN") != "", os.Getenv("CORVO_NAMESPACE") != ""
		if key && namespace {
			return misusef("an API key belongs to one namespace: unset CORVO_API_KEY or CORVO_NAMESPACE, or choose one with a flag")
		}
	}
	switch {
	case key:
		a.cloudToken, a.namespace = "", ""
	case token || namespace:
		a.apiKey = ""
	}
	return nil
}

// speaker resolves the credentials for a data plane: an API key, or a cloud token with its namespace.
func (r *remote) speaker() (access, error) {
	if err := r.checkOutput(); err != nil {
		return access{}, err
	}
	a, err := r.access()
	if err == nil {
		err = r.choose(&a)
	}
	switch {
	case err != nil:
	case a.namespace != "" && a.cloudToken != "":
		a.apiKey = ""
	case a.namespace != "":
		err = misusef("namespace %s needs a cloud token: run corvo login, or leave out the namespace and use an API key%s", a.namespace, a.leftOut)
	case a.apiKey == "" && a.cloudToken != "":
		err = misusef("a cloud token needs a namespace: give --namespace or CORVO_NAMESPACE; corvo cloud namespaces lists them")
	default:
		a.cloudToken = ""
	}
	return a, err
}

// client makes a client of the data plane.
func (r *remote) client(opts ...client.Option) (*client.Client, error) {
	a, err := r.speaker()
	if err != nil {
		return nil, err
	}
	return a.client(opts...)
}

// secret returns the credential for the Authorization header.
func (a *access) secret() string { return cmp.Or(a.cloudToken, a.apiKey) }

// retryTime is the time for which a command repeats a request that a server refuses with a Retry-After, because the server
// may be starting.
const retryTime = 15 * time.Second

// client makes a client of the data plane with these credentials.
func (a *access) client(opts ...client.Option) (*client.Client, error) {
	opts = append([]client.Option{client.WithRetryTime(retryTime)}, opts...)
	if a.namespace != "" {
		opts = append(opts, client.WithNamespace(a.namespace))
	}
	return usable(client.New(a.endpoint, a.secret(), opts...))
}

// usable marks an invalid endpoint as misuse.
func usable[C any](c C, err error) (C, error) {
	if err != nil {
		err = misuse.Of(err)
	}
	return c, err
}

// cloud makes a client of the control plane.
func (r *remote) cloud() (*client.Cloud, error) {
	if err := r.checkOutput(); err != nil {
		return nil, err
	}
	a, err := r.access()
	if err != nil {
		return nil, err
	}
	if a.cloudToken == "" {
		return nil, misusef("no cloud token is given: run corvo login, set CORVO_CLOUD_TOKEN or give --cloud-token-file%s", a.leftOut)
	}
	return usable(client.NewCloud(a.endpoint, a.cloudToken, client.WithRetryTime(retryTime)))
}

// run builds a command's body from a function that sends the request and one that shows the answer to people.
func run[A any](r *remote, ask func(cmd *cobra.Command, c *client.Client, args []string) (A, error), show func(w io.Writer, a A)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		defer c.Close()
		a, err := ask(cmd, c, args)
		if err != nil {
			return err
		}
		return tell(r, cmd, a, show)
	}
}

// tell prints the answer in the requested format.
func tell[A any](r *remote, cmd *cobra.Command, a A, show func(w io.Writer, a A)) error {
	if r.output == outputJSON {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetEscapeHTML(false)
		return out.Encode(a)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	show(table, a)
	return table.Flush()
}

// oneLine formats an error for the command line.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}
