package main

import (
	"cmp"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// profileShown is a profile without its secrets.
type profileShown struct {
	Name       string `json:"name"`
	Current    bool   `json:"current"`
	Endpoint   string `json:"endpoint"`
	Namespace  string `json:"namespace,omitempty"`
	APIKey     string `json:"api_key"`     // where it is: "kept", "file ...", "" = none
	CloudToken string `json:"cloud_token"` // the same
}

// newProfiles makes the commands about the file of profiles. They send no request.
func newProfiles() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: "profiles", Short: "Manage profiles, stored endpoints with credentials", Long: "Manage profiles, stored endpoints with credentials. They are in ~/.config/corvo/config.yaml (or below\n" +
		"XDG_CONFIG_HOME), readable by you alone. Flags override the environment, which overrides the profile. The secrets\n" +
		"of a profile are sent to its own endpoint only."})
	r.bindOutput(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List profiles, without their secrets", Args: cobra.NoArgs,
			RunE: onProfiles(r, func(all *profiles, _ []string) ([]profileShown, error) { return all.shown(), nil }, showProfiles),
		},
		newProfileSet(r),
		&cobra.Command{
			Use: "use PROFILE", Short: "Make a profile the default", Args: cobra.ExactArgs(1),
			RunE: onProfiles(r, func(all *profiles, args []string) (api.Status, error) {
				p, err := all.named(args[0])
				if err != nil {
					return api.Status{}, err
				}
				return done("used"), all.keep(args[0], p, true)
			}, showStatus),
		},
		&cobra.Command{
			Use: "delete PROFILE", Short: "Delete a profile with its secrets", Args: cobra.ExactArgs(1),
			RunE: onProfiles(r, func(all *profiles, args []string) (api.Status, error) {
				if _, err := all.named(args[0]); err != nil {
					return api.Status{}, err
				}
				delete(all.All, args[0])
				if all.Current == args[0] {
					all.Current = ""
				}
				return done("deleted"), all.write()
			}, showStatus),
		},
	)
	return cmd
}

// onProfiles builds the body of a command about the file.
func onProfiles[A any](r *remote, do func(all *profiles, args []string) (A, error), show func(io.Writer, A)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := r.checkOutput(); err != nil {
			return err
		}
		all, err := readProfiles()
		if err != nil {
			return err
		}
		a, err := do(&all, args)
		if err != nil {
			return err
		}
		return tell(r, cmd, a, show)
	}
}

func newProfileSet(r *remote) *cobra.Command {
	var made edits[profile]
	cmd := &cobra.Command{
		Use: "set PROFILE", Short: "Change or create a profile", Args: cobra.ExactArgs(1),
		Long: "Change or create a profile; the first one becomes the default. Fields without a flag keep their value; --FLAG\n" +
			nothing + " removes a value. A secret in a file stays there; a secret from stdin (-) is stored in the profile.",
	}
	cmd.RunE = onProfiles(r, func(all *profiles, args []string) (api.Status, error) {
		p, err := all.toChange(args[0])
		if err != nil {
			return api.Status{}, err
		}
		made.apply(&p)
		if p.Endpoint != "" {
			if _, err := usable(client.New(p.Endpoint, "")); err != nil {
				return api.Status{}, err
			}
		}
		return done("set"), all.keep(args[0], p, false)
	}, showStatus)
	made.bind(cmd,
		set("endpoint", "URL of a node or of the cloud", someText, func(p *profile) *string { return &p.Endpoint }),
		secretFile("api-key-file", "file with the API key, - for stdin", func(p *profile) (kept, file *string) { return &p.APIKey, &p.APIKeyFile }),
		secretFile("cloud-token-file", "file with a cloud token, - for stdin", func(p *profile) (kept, file *string) { return &p.CloudToken, &p.CloudTokenFile }),
		set("namespace", "namespace to use with a cloud token", someText, func(p *profile) *string { return &p.Namespace }),
	)
	return cmd
}

// secretFile makes a flag for a profile's secret. The profile stores the file's path, because the file may
// later hold another secret; a secret from stdin is stored itself.
func secretFile(name, usage string, fields func(*profile) (kept, file *string)) edit[profile] {
	return edit[profile]{name, secret.kind, usage, func(path string) (func(*profile), error) {
		var text string
		var err error
		switch path {
		case nothing:
			path = ""
		case "-":
			path = ""
			text, err = credential.read("-")
		default:
			if _, err = credential.read(path); err == nil {
				path, err = filepath.Abs(path)
			}
		}
		return func(p *profile) {
			kept, file := fields(p)
			*kept, *file = text, path
		}, err
	}}
}

// keep stores a profile. It makes the profile current if requested, or if it is the only one.
func (p *profiles) keep(name string, one profile, current bool) error {
	if p.All == nil {
		p.All = map[string]profile{}
	}
	p.All[name] = one
	if current || len(p.All) == 1 {
		p.Current = name
	}
	return p.write()
}

// shown returns the profiles without their secrets.
func (p *profiles) shown() []profileShown {
	all := []profileShown{}
	for _, name := range p.names() {
		one := p.All[name]
		all = append(all, profileShown{
			Name: name, Current: name == p.Current, Endpoint: cmp.Or(one.Endpoint, defaultEndpoint), Namespace: one.Namespace,
			APIKey: whereKept(one.APIKey, one.APIKeyFile), CloudToken: whereKept(one.CloudToken, one.CloudTokenFile),
		})
	}
	return all
}

func whereKept(kept, file string) string {
	switch {
	case kept != "":
		return "kept"
	case file != "":
		return "file " + file
	}
	return ""
}

func showProfiles(w io.Writer, all []profileShown) {
	showList(w, all, []column[profileShown]{
		{"PROFILE", func(p profileShown) string { return p.Name }},
		{"CURRENT", func(p profileShown) string { return yes(p.Current) }},
		{"ENDPOINT", func(p profileShown) string { return p.Endpoint }},
		{"NAMESPACE", func(p profileShown) string { return p.Namespace }},
		{"API KEY", func(p profileShown) string { return p.APIKey }},
		{"CLOUD TOKEN", func(p profileShown) string { return p.CloudToken }},
	})
}
