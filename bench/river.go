package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	riverName    = "River, PostgreSQL 15"
	riverWorkers = 1000 // so many that its fetches are large
	postgresBin  = "/usr/lib/postgresql/15/bin"
)

func makeDir(dir string) error { return os.MkdirAll(dir, 0o700) }

// postgres returns a command of PostgreSQL, run as the user postgres because it refuses root.
func postgres(name string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(filepath.Join(postgresBin, name), args...)
	cmd.Dir = "/"
	if os.Geteuid() != 0 {
		return cmd, nil
	}
	uid, gid, err := postgresUser()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return cmd, nil
}

func postgresUser() (uid, gid int, err error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, err
	}
	uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}

// startPostgres starts a server with a new database and durable commits.
func startPostgres() (dsn string, stop func() error, err error) {
	// The folder is outside ours, because it belongs to another user.
	dir, err := os.MkdirTemp("", "corvo-postgres-")
	if err != nil {
		return "", nil, err
	}
	clean := func() error { return os.RemoveAll(dir) }
	if os.Geteuid() == 0 {
		uid, gid, err := postgresUser()
		if err = errors.Join(err, os.Chown(dir, uid, gid)); err != nil {
			return "", nil, errors.Join(err, clean())
		}
	}
	data := filepath.Join(dir, "data")
	initdb, err := postgres("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N")
	if err != nil {
		return "", nil, errors.Join(err, clean())
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), clean())
	}
	port, err := freePort()
	if err != nil {
		return "", nil, errors.Join(err, clean())
	}
	server, err := postgres("postgres", "-D", data, "-h", "127.0.0.1", "-p", fmt.Sprint(port), "-k", dir, "-c", "max_connections=200", "-c", "shared_buffers=256MB", "-c", "synchronous_commit=on", "-c", "log_min_messages=fatal")
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return "", nil, errors.Join(err, clean())
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", port), func() error {
		return errors.Join(server.Process.Signal(syscall.SIGINT), server.Wait(), clean())
	}, nil
}

func openRiver(ctx context.Context, _ string) (map[row]measure, func() error, error) {
	if _, err := os.Stat(filepath.Join(postgresBin, "postgres")); err != nil {
		return nil, nil, fmt.Errorf("%w: PostgreSQL is missing in %s; apt-get install postgresql-15", errAbsent, postgresBin)
	}
	dsn, stop, err := startPostgres()
	if err != nil {
		return nil, nil, err
	}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	cfg.MaxConns = 64
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	closeIt := func() error { pool.Close(); return stop() }
	if err := eventually(func() error { return pool.Ping(ctx) }); err != nil {
		return nil, nil, errors.Join(err, closeIt())
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeIt())
	}
	p := riverPeer{pool}
	return map[row]measure{
		enqueue1:    p.insert(1),
		enqueue32:   p.insert(32),
		enqueue128:  p.insert(128),
		bulkEnqueue: p.insertMany,
		work:        p.work,
		steady:      p.steady,
	}, closeIt, nil
}

type riverPeer struct{ pool *pgxpool.Pool }

// args are a job's arguments, padded to the payload size of the other systems.
type args struct {
	At  int64  `json:"at"`
	Pad string `json:"pad"`
}

func (args) Kind() string { return kind }

var pad = strings.Repeat("x", payloadBytes-len(`{"at":0000000000,"pad":""}`))

// worker reports each job to a flow and does no work.
type worker struct {
	river.WorkerDefaults[args]
	flow *flow
}

func (w *worker) Work(_ context.Context, j *river.Job[args]) error {
	w.flow.done(j.Args.At)
	return nil
}

// client empties the table and returns a client whose workers, once started, report to a flow.
func (p riverPeer) client(ctx context.Context, f *flow) (*river.Client[pgx.Tx], error) {
	if _, err := p.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return nil, err
	}
	return p.workers(f)
}

func (p riverPeer) workers(f *flow) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{flow: f})
	return river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond, // the defaults are for few jobs
		Logger: slog.New(slog.DiscardHandler),
	})
}

func (p riverPeer) insert(clients int) measure {
	return func(ctx context.Context, d time.Duration) (outcome, error) {
		c, err := p.client(ctx, nil)
		if err != nil {
			return outcome{}, err
		}
		return drive(ctx, clients, d, func(ctx context.Context, _ int) (int, error) {
			_, err := c.Insert(ctx, args{Pad: pad}, nil)
			return 1, err
		})
	}
}

func some(n int, at int64) []river.InsertManyParams {
	all := make([]river.InsertManyParams, n)
	for i := range all {
		all[i].Args = args{At: at, Pad: pad}
	}
	return all
}

func (p riverPeer) insertMany(ctx context.Context, d time.Duration) (outcome, error) {
	c, err := p.client(ctx, nil)
	if err != nil {
		return outcome{}, err
	}
	return drive(ctx, pullers, d, func(ctx context.Context, _ int) (int, error) { return c.InsertManyFast(ctx, some(atOnce, 0)) })
}

func (p riverPeer) work(ctx context.Context, d time.Duration) (outcome, error) {
	c, err := p.client(ctx, nil)
	if err != nil {
		return outcome{}, err
	}
	const chunk = 5000
	for n := 0; n < jobsFor(d); n += chunk {
		if _, err := c.InsertManyFast(ctx, some(chunk, 0)); err != nil {
			return outcome{}, err
		}
	}
	if _, err := p.pool.Exec(ctx, "ANALYZE river_job"); err != nil {
		return outcome{}, err
	}
	return workFor(ctx, d, func(f *flow) (func(), error) { return p.serve(ctx, f) })
}

// serve starts workers that report finished jobs to a flow.
func (p riverPeer) serve(ctx context.Context, f *flow) (stop func(), err error) {
	c, err := p.workers(f)
	if err != nil {
		return nil, err
	}
	// The end of a measurement cancels running jobs; the next one truncates the table.
	return func() { _ = c.StopAndCancel(context.WithoutCancel(ctx)) }, c.Start(ctx)
}

func (p riverPeer) steady(ctx context.Context, d time.Duration) (outcome, error) {
	f := &flow{begin: time.Now()}
	c, err := p.client(ctx, f)
	if err != nil {
		return outcome{}, err
	}
	stop, err := p.serve(ctx, f)
	if err != nil {
		return outcome{}, err
	}
	defer stop()
	f.begin = time.Now()
	return f.produce(ctx, d, pullers, atOnce, func(ctx context.Context, _ int) error {
		_, err := c.InsertManyFast(ctx, some(atOnce, f.now()))
		return err
	})
}
