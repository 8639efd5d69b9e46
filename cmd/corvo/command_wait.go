package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// waitFlags holds the flags of a command that may wait for the effect of its change.
type waitFlags struct {
	wait bool
	most time.Duration // 0 = no limit
}

// bind adds the flags. what is the help of --wait.
func (f *waitFlags) bind(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&f.wait, "wait", false, what)
	cmd.Flags().DurationVar(&f.most, "timeout", 0, "longest wait; 0 for no limit")
}

func (f *waitFlags) check() error {
	if f.most > 0 && !f.wait {
		return misusef("--timeout needs --wait, because the command waits for nothing without it")
	}
	return checkTimeout(f.most)
}

// checkTimeout refuses a negative --timeout.
func checkTimeout(most time.Duration) error {
	if most < 0 {
		return misusef("--timeout is %v; it must be 0, for no limit, or more", most)
	}
	return nil
}

// pollEvery is the longest pause of poll. The first ones are shorter.
const pollEvery = 500 * time.Millisecond

// poll calls look until it reports an end; look shows on p how far the work is. most bounds the wait; 0 = no bound. Once
// it is over, poll returns a timedOut with the text of over.
func poll(cmd *cobra.Command, most time.Duration, look func(p *progress) (finished bool, err error), over func() string) error {
	p := newProgress(cmd)
	defer p.clear()
	var end <-chan time.Time
	if most > 0 {
		end = time.After(most)
	}
	for wait := pollEvery / 20; ; wait = min(2*wait, pollEvery) {
		if finished, err := look(p); finished || err != nil {
			return err
		}
		select {
		case <-end:
			return timedOut{errors.New(over())}
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(wait):
		}
	}
}

// awaitSettled waits until the spec of a namespace is in effect, and returns the namespace.
func awaitSettled(cmd *cobra.Command, c *client.Cloud, ns api.Namespace, most time.Duration) (api.Namespace, error) {
	id := ns.ID
	err := poll(cmd, most, func(p *progress) (bool, error) {
		if inEffect(ns) {
			return true, nil
		}
		p.show(0, 0, fmt.Sprintf("%s: %s", ns.Name, ns.Status.Message))
		var err error
		ns, err = c.Namespace(cmd.Context(), id)
		return inEffect(ns) && err == nil, err
	}, func() string {
		return fmt.Sprintf("after %v the change of namespace %s is not in effect yet, and goes on: %s", most, ns.Name, cmp.Or(ns.Status.Message, "the control plane has not acted on it yet"))
	})
	return ns, err
}

// inEffect reports whether the spec of a namespace is in effect. The generation alone does not say so, because the list of
// members may get its own one after that of the spec.
func inEffect(ns api.Namespace) bool {
	return ns.Status.ObservedGeneration == ns.Generation && ns.Status.Replicas == ns.Spec.Replicas
}
