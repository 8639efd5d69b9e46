package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/dataplane"
	durably "github.com/corvo/corvo/durable"
)

// backupFile is a backup as the commands report it.
type backupFile struct {
	File         string    `json:"file"`
	DataDir      string    `json:"data_dir,omitempty"` // set after a restore
	Created      time.Time `json:"created"`
	Version      string    `json:"version"`
	FeatureLevel uint32    `json:"feature_level"`
	Shards       int       `json:"shards"`
	AppliedIndex []uint64  `json:"applied_index"` // by shard
	Records      uint64    `json:"records"`
	Bytes        uint64    `json:"bytes"` // of the records
}

func describe(file, dataDir string, of dataplane.Restored) backupFile {
	d := backupFile{
		File: file, DataDir: dataDir, Created: of.Created, Version: of.Version, FeatureLevel: of.FeatureLevel,
		Shards: len(of.Shards), Bytes: of.Bytes,
	}
	for i, s := range of.Shards {
		d.AppliedIndex = append(d.AppliedIndex, s.Index)
		d.Records += of.Pairs[i]
	}
	return d
}

func showBackup(w io.Writer, b backupFile) {
	fmt.Fprintln(w, "FILE\tCREATED\tVERSION\tLEVEL\tSHARDS\tRECORDS\tBYTES")
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\n", b.File, b.Created.Format(time.RFC3339), b.Version, b.FeatureLevel, b.Shards, b.Records, b.Bytes)
	if b.DataDir != "" {
		fmt.Fprintf(w, "restored; start it with: corvo server --data-dir %s\n", b.DataDir)
	}
}

func newBackup(r *remote) *cobra.Command {
	var file string
	var anyNode bool
	cmd := &cobra.Command{
		Use: "backup", Short: "Write a consistent backup of all state to a file", Args: cobra.NoArgs,
		Long: `Write a consistent backup of all state to a file. The node keeps serving.

The file holds payloads, results and the hashes of API keys, unencrypted. It is
created with mode 0600; protect it like the data. With --out - the backup goes to
stdout, for a program that encrypts it. The backup is complete only if the exit
code is 0: make the shell check every command of a pipe (set -o pipefail).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if file == "-" {
				if forPerson() {
					return misusef("--out - writes the backup to stdout, which is a terminal: pipe it into a program that encrypts it, or give --out a file")
				}
				of, err := r.receive(ctx, os.Stdout, anyNode, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				cmd.SetOut(cmd.ErrOrStderr()) // because stdout carries only the backup
				return tell(r, cmd, describe(file, "", of), showBackup)
			}
			of, err := r.backup(ctx, file, anyNode, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return tell(r, cmd, describe(file, "", of), showBackup)
		},
	}
	cmd.Flags().StringVar(&file, "out", "", "new file for the backup, - for stdout")
	cmd.Flags().BoolVar(&anyNode, "any-node", false, "back up this node's state without its leader, after a lost quorum")
	return cmd
}

// backup receives a backup and gives the file its name after the whole backup is on disk.
func (r *remote) backup(ctx context.Context, file string, anyNode bool, progress io.Writer) (of dataplane.Restored, err error) {
	if file == "" {
		return of, misusef("--out is missing: give a new file, or - for stdout")
	}
	if _, err := os.Lstat(file); err == nil {
		return of, misusef("--out %s exists: give a new file", file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return of, err
	}
	out, err := os.OpenFile(file+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return of, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoring(out.Close(), os.ErrClosed), ignoring(os.Remove(out.Name()), fs.ErrNotExist))
		}
	}()
	if err := out.Chmod(0o600); err != nil { // an earlier crash may have left the file with other permissions
		return of, err
	}
	if of, err = r.receive(ctx, out, anyNode, progress); err != nil {
		return of, err
	}
	return of, durably.Keep(out, file)
}

// receive requests a backup from the node and checks it while writing it to out. If receive returns an error,
// out does not hold a valid backup.
func (r *remote) receive(ctx context.Context, out io.Writer, anyNode bool, progress io.Writer) (of dataplane.Restored, err error) {
	c, err := r.client()
	if err != nil {
		return of, err
	}
	defer c.Close()
	shown := newMeter(progress)
	err = c.Backup(ctx, anyNode, func(from io.Reader) (err error) {
		of, err = dataplane.CheckBackup(ctx, io.TeeReader(from, io.MultiWriter(out, shown)))
		return err
	})
	shown.end()
	return of, err
}

func ignoring(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

func newRestore(r *remote) *cobra.Command {
	var file, dataDir string
	var check bool
	cmd := &cobra.Command{
		Use: "restore", Short: "Create a new node on this machine from a backup", Args: cobra.NoArgs,
		Long: `Create a new node on this machine from a backup.

The command asks no server. --data-dir must be new or empty. The whole file is
checked before anything is written. The node starts a new history: start it with
corvo server, then let other nodes join it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if file == "" {
				return misusef("--from is missing: give a backup file of corvo admin backup")
			}
			if file == "-" {
				return misusef("--from must be a file, because the backup is read twice: save the piped backup to a file first")
			}
			if check == (dataDir != "") {
				return misusef("give either --data-dir for the new node or --check to only check the file")
			}
			from, err := os.Open(file)
			if err != nil {
				return misusef("--from: %w", err)
			}
			defer from.Close()
			var of dataplane.Restored
			if check {
				of, err = dataplane.CheckBackup(ctx, from)
			} else {
				of, err = dataplane.Restore(ctx, from, dataDir)
			}
			if err != nil {
				return err
			}
			return tell(r, cmd, describe(file, dataDir, of), showBackup)
		},
	}
	cmd.Flags().StringVar(&file, "from", "", "backup `file` of corvo admin backup")
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "data directory of the new node")
	cmd.Flags().BoolVar(&check, "check", false, "check the whole file and describe it, without creating a node")
	return cmd
}

// meter shows on a terminal how many bytes have passed.
type meter struct {
	to    io.Writer // nil = not a terminal
	bytes int64
	shown time.Time
}

// meterEvery is the interval between two updates of a meter.
const meterEvery = 200 * time.Millisecond

func newMeter(to io.Writer) *meter {
	f, ok := to.(*os.File)
	if !ok {
		return &meter{}
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &meter{}
	}
	return &meter{to: to}
}

func (m *meter) Write(b []byte) (int, error) {
	m.bytes += int64(len(b))
	if m.to != nil && time.Since(m.shown) >= meterEvery {
		m.shown = time.Now()
		fmt.Fprintf(m.to, "\r%d MiB ", m.bytes>>20)
	}
	return len(b), nil
}

func (m *meter) end() {
	if m.to != nil {
		fmt.Fprint(m.to, "\r                    \r")
	}
}
