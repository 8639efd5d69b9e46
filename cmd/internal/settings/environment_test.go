package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestWarnUnknown(t *testing.T) {
	t.Parallel()
	root, server := &cobra.Command{Use: "x"}, &cobra.Command{Use: "server"}
	server.Flags().String("data-dir", "", "")
	root.AddCommand(server)
	warned := func(nearOnly bool, environ ...string) (all []string) {
		WarnUnknown(root, environ, nearOnly, func(m string) { all = append(all, m) })
		return all
	}
	quiet := []string{
		"CORVO_DATA_DIR=x", "CORVO_QUEUES=a", "PATH=/", "CORVOX=1", "corvo_data_dri=x",
		"CORVO_SERVICE_HOST=10.0.0.1", "CORVO_SERVICE_PORT_HTTP=80", "CORVO_PORT=tcp://10.0.0.1:80", "CORVO_PORT_8080_TCP_ADDR=10.0.0.1", "CORVO_INTERNAL_SERVICE_HOST=x",
	}
	if got := warned(false, quiet...); len(got) != 0 {
		t.Errorf("%q", got)
	}
	near := `environment variable "CORVO_DATA_DRI" is unknown and does nothing; did you mean CORVO_DATA_DIR?`
	far := `environment variable "CORVO_FROBNICATE" is unknown and does nothing`
	if got := warned(false, "CORVO_FROBNICATE=1", "CORVO_DATA_DRI=secret"); !slices.Equal(got, []string{near, far}) {
		t.Errorf("%q", got)
	}
	if got := warned(true, "CORVO_FROBNICATE=1", "CORVO_DATA_DRI=secret"); !slices.Equal(got, []string{near}) {
		t.Errorf("%q", got)
	}
	var many []string
	for i := range mostUnknown + 5 {
		many = append(many, "CORVO_ZZZZZZ"+strings.Repeat("Z", i))
	}
	if got := warned(false, many...); len(got) != mostUnknown+1 || !strings.Contains(got[mostUnknown], "more than 10") {
		t.Errorf("%q", got)
	}
}
