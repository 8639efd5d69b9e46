package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/corvo/internal/from03"
)

// importing is the import from a running Corvo 0.3.
type importing struct {
	*remote
	from        string
	fromKeyFile string
	keysFile    string
	dryRun      bool
}

func newImport(r *remote) *cobra.Command {
	i := &importing{remote: r}
	cmd := &cobra.Command{
		Use:   "import --from-0.3 URL",
		Short: "Copy jobs and settings from a running Corvo 0.3",
		Long: "Copy unfinished jobs (pending, scheduled, retrying, active, held, dead) and settings from a running Corvo 0.3: queues,\n" +
			"providers, budgets, schedules, webhooks and the names of keys. Stop its workers first. At the end the command counts\n" +
			"and compares the jobs of both servers. A repeated run copies only missing jobs and settings.\n" +
			"docs/from-corvo-0.3.md lists the differences between the versions.",
		Args: cobra.NoArgs,
		RunE: i.run,
	}
	bindText(cmd.Flags(), &i.from, "from-0.3", "URL of the running Corvo 0.3")
	bindText(cmd.Flags(), &i.fromKeyFile, "from-key-file", "file with its admin key or password, - for stdin; or CORVO_FROM_KEY")
	bindText(cmd.Flags(), &i.keysFile, "keys-file", "new file for the secrets of the created keys; without it no keys are created")
	cmd.Flags().BoolVar(&i.dryRun, "dry-run", false, "report what the import would copy, and write nothing")
	return cmd
}

func (i *importing) run(cmd *cobra.Command, _ []string) error {
	if i.from == "" {
		return misusef("--from-0.3 is missing: give the URL of the running Corvo 0.3")
	}
	source, err := i.source()
	if err != nil {
		return err
	}
	c, err := i.client()
	if err != nil {
		return err
	}
	defer c.Close()
	keys, done, err := i.openKeys()
	if err != nil {
		return err
	}
	bar := newProgress(cmd)
	report, err := from03.Copy(cmd.Context(), from03.Config{
		Source: source, Target: c, DryRun: i.dryRun, Keys: keys,
		Progress: func(done, total int) {
			bar.show(uint64(done), uint64(total), fmt.Sprintf("%d of %d jobs", done, total))
		},
	})
	bar.clear()
	if errors.Is(err, from03.ErrOriginal) {
		return errors.Join(err, done())
	}
	if err := errors.Join(err, done()); err != nil {
		return fmt.Errorf("the import stopped: %w; run it again to continue", err)
	}
	if err := tell(i.remote, cmd, report, showImport); err != nil {
		return err
	}
	if !report.Complete() {
		return errors.New("the import is incomplete: the report lists the missing jobs and settings with reasons")
	}
	return nil
}

// source opens the server to copy from.
func (i *importing) source() (*from03.Source, error) {
	key := os.Getenv("CORVO_FROM_KEY")
	if i.fromKeyFile != "" {
		var err error
		if key, err = credential.read(i.fromKeyFile); err != nil {
			return nil, misusef("--from-key-file: %w", err)
		}
	}
	source, err := from03.NewSource(i.from, key)
	if err != nil {
		return nil, misusef("--from-0.3: %w", err)
	}
	return source, nil
}

// openKeys opens the file for new secrets. It must not exist, because the secrets in an older
// file would be lost. The file is removed again if nothing was written to it.
func (i *importing) openKeys() (io.Writer, func() error, error) {
	if i.keysFile == "" || i.dryRun {
		return nil, func() error { return nil }, nil
	}
	f, err := os.OpenFile(i.keysFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, nil, misusef("--keys-file: %w", err)
	}
	return f, func() error {
		info, err := f.Stat()
		if err == nil && info.Size() == 0 {
			return errors.Join(f.Close(), os.Remove(i.keysFile))
		}
		return errors.Join(err, f.Sync(), f.Close())
	}, nil
}

func showImport(w io.Writer, r *from03.Report) {
	j := r.Jobs
	fmt.Fprintf(w, "jobs\tfound %d, copied %d, copied earlier %d, expired %d, gone %d, refused %d\n", j.Found, j.Copied, j.Earlier, j.Expired, j.Gone, j.Refused)
	fmt.Fprintf(w, "\t%d completed and cancelled jobs stay on the original\n", j.Finished)
	for _, s := range r.Settings {
		fmt.Fprintf(w, "%s\t%s: %s%s\n", s.Kind, s.Name, s.Outcome, because(s.Reason))
	}
	if len(r.Queues) > 0 {
		fmt.Fprintln(w, "\nQUEUE\tTHERE\tHERE\t")
	}
	for _, q := range r.Queues {
		differ := ""
		if q.Differ {
			differ = "differ"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", q.Name, q.There, q.Here, differ)
	}
	if len(r.Problems) > 0 {
		fmt.Fprintln(w, "\nJOB\tQUEUE\tPROBLEM")
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.JobID, cmp.Or(p.Queue, "-"), p.Reason)
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
