package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corvo/corvo/api/text"
)

// Prefix begins the names of our environment variables.
const Prefix = "CORVO_"

// variables lists the environment variables without a flag: those of clients, workers, the Terraform provider
// and the scripts that install and try Corvo.
var variables = []string{
	"CORVO_API_KEY", "CORVO_BASE_URL", "CORVO_CLOUD_TOKEN", "CORVO_CONCURRENCY", "CORVO_ENDPOINT", "CORVO_HEALTH_ADDR", "CORVO_IMAGE",
	"CORVO_INSTALL_DIR", "CORVO_JOIN_TOKEN", "CORVO_NAMESPACE", "CORVO_PROFILE", "CORVO_QUEUES", "CORVO_STRIPE_KEY", "CORVO_URL",
	"CORVO_VERSION",
}

// foreign matches variables that other programs set for a service of our name: Kubernetes for each Service,
// Docker for each link.
var foreign = regexp.MustCompile(`_SERVICE_(HOST|PORT(_.*)?)$|_PORT(_[0-9]+_(TCP|UDP)(_.*)?)?$`)

// mostUnknown is the largest number of unknown variables that WarnUnknown names.
const mostUnknown = 10

// WarnUnknown calls warn for environment variables that begin with Prefix and that no command of root reads,
// and suggests the name that is probably meant. It skips the variables that Kubernetes and Docker set. After
// mostUnknown variables it warns only that there are more. With nearOnly it warns only of variables for which
// it has a suggestion, because a command line shares its environment with programs that have settings of
// their own. For the same reason an unknown variable is never an error.
func WarnUnknown(root *cobra.Command, environ []string, nearOnly bool, warn func(message string)) {
	known := knownVariables(root)
	told := 0
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, Prefix) || slices.Contains(known, name) || foreign.MatchString(name) {
			continue
		}
		near := text.Nearest(name, known)
		if near == "" && nearOnly {
			continue
		}
		if told++; told > mostUnknown {
			warn(fmt.Sprintf("more than %d environment variables that begin with %s are unknown", mostUnknown, Prefix))
			return
		}
		message := fmt.Sprintf("environment variable %.100q is unknown and does nothing", name)
		if near != "" {
			message += fmt.Sprintf("; did you mean %s?", near)
		}
		warn(message)
	}
}

// knownVariables returns variables and those of the flags of all commands, in order.
func knownVariables(root *cobra.Command) []string {
	known := slices.Clone(variables)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { known = append(known, envName(f.Name)) })
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	slices.Sort(known)
	return slices.Compact(known)
}
