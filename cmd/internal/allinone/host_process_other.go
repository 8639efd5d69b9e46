//go:build !unix

package allinone

import "os/exec"

func separate(*exec.Cmd) {}
