package main

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// firstProfile is the profile that login creates if none is named.
const firstProfile = "default"

// loggedIn is the output of corvo login.
type loggedIn struct {
	Profile  string   `json:"profile"`
	Endpoint string   `json:"endpoint"`
	Orgs     []string `json:"orgs"` // that the token may see

	Namespace string `json:"namespace,omitempty"` // of commands on jobs and queues
}

// newLogin makes the command that stores a cloud token in a profile.
func newLogin() *cobra.Command {
	r := &remote{}
	var endpoint, name, file, namespace string
	cmd := &cobra.Command{
		Use: "login", Short: "Store a cloud token in a profile", Args: cobra.NoArgs,
		Long: "Store a cloud token in a profile after the cloud has accepted it. The token is read from a file or from stdin, never\n" +
			"from an argument, and is not printed. The profile becomes the current one, which commands without --profile use.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.checkOutput(); err != nil {
				return err
			}
			if file == "" {
				return api.Errorf(api.Unsupported, "sign-in with a browser (OIDC) does not exist yet: give a cloud token with --token-file FILE, or - for stdin; corvo-cloud dev writes one to dev.env in its data directory")
			}
			all, err := readProfiles()
			if err != nil {
				return err
			}
			name = cmp.Or(name, os.Getenv("CORVO_PROFILE"), all.Current, firstProfile)
			p, err := all.toChange(name)
			if err != nil {
				return err
			}
			was := cmp.Or(p.Endpoint, defaultEndpoint)
			p.Endpoint = cmp.Or(endpoint, os.Getenv("CORVO_ENDPOINT"), was)
			if !sameEndpoint(was, p.Endpoint) {
				p = profile{Endpoint: p.Endpoint} // the old profile belonged to another server
			}
			if p.CloudToken, err = credential.read(file); err != nil {
				return misusef("--token-file %s: %w", file, err)
			}
			p.CloudTokenFile = ""
			p.Namespace = cmp.Or(namespace, p.Namespace)
			orgs, err := takes(cmd, p, namespace)
			if err != nil {
				return err
			}
			if err := all.keep(name, p, true); err != nil {
				return err
			}
			return tell(r, cmd, loggedIn{name, p.Endpoint, orgs, p.Namespace}, showLoggedIn)
		},
	}
	flags := cmd.Flags()
	bindText(flags, &file, "token-file", "file with the cloud token, - for stdin")
	bindText(flags, &endpoint, "endpoint", "URL of the cloud; or CORVO_ENDPOINT (default: the profile's)")
	bindText(flags, &name, "profile", "profile to store the token in; or CORVO_PROFILE (default: the current one, at first "+firstProfile+")")
	bindText(flags, &namespace, "namespace", "namespace for commands on jobs and queues")
	r.bindOutput(cmd)
	completeFlag(cmd, "profile", completeProfiles)
	return cmd
}

func showLoggedIn(w io.Writer, l loggedIn) {
	fmt.Fprintf(w, "profile %s is logged in at %s\n", l.Profile, l.Endpoint)
	showKnown(w, l,
		column[loggedIn]{"ORGANISATIONS", func(l loggedIn) string { return joinOr(l.Orgs, "none") }},
		column[loggedIn]{"NAMESPACE", func(l loggedIn) string { return l.Namespace }},
	)
}

// takes asks the cloud whether it accepts the profile's token and whether a given namespace exists. It
// returns the organisations that the token may see.
func takes(cmd *cobra.Command, p profile, namespace string) ([]string, error) {
	c, err := usable(client.NewCloud(p.Endpoint, p.CloudToken))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	orgs, err := c.Orgs(cmd.Context())
	if api.CodeOf(err) == api.NotFound {
		return nil, fmt.Errorf("%s has no cloud API: %w; to store the API key of a node, use corvo profiles set NAME --endpoint URL --api-key-file FILE", p.Endpoint, err)
	}
	if err != nil {
		return nil, err
	}
	if namespace != "" {
		if _, err := c.Namespace(cmd.Context(), namespace); err != nil {
			return nil, fmt.Errorf("--namespace %s: %w; nothing was stored: give another namespace, or leave it out and run corvo cloud namespaces", namespace, err)
		}
	}
	names := []string{}
	for _, o := range orgs {
		names = append(names, o.Name)
	}
	return names, nil
}
