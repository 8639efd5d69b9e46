//go:build unix

package allinone

import (
	"os/exec"
	"syscall"
)

// separate gives a process a group of its own, so that an interrupt at the terminal reaches only the parent, which ends
// its parts in order.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
