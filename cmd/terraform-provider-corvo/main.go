// Command terraform-provider-corvo is the Terraform provider corvo/corvo. Terraform
// starts it; a person does only to debug it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	provider "github.com/corvo/corvo/terraform-provider"
)

// version is set when a release is built.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "run in a debugger: print how Terraform finds this process")
	flag.Parse()
	if err := provider.Serve(context.Background(), version, *debug); err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider-corvo:", err)
		os.Exit(1)
	}
}
