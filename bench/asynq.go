package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
)

const (
	asynqFast = "Asynq, fsync every second"
	asynqSafe = "Asynq, fsync always"

	asynqWorkers = 64
	kind         = "job"
)

// freePort returns a port that was free a moment ago, for servers that cannot choose one.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// eventually repeats try until it succeeds, for ten seconds at most.
func eventually(try func() error) (err error) {
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}

// openAsynq starts a Redis with an append-only file.
func openAsynq(fsync string) func(context.Context, string) (map[row]measure, func() error, error) {
	return func(_ context.Context, dir string) (map[row]measure, func() error, error) {
		path, err := exec.LookPath("redis-server")
		if err != nil {
			return nil, nil, fmt.Errorf("%w: redis-server is missing; apt-get install redis-server", errAbsent)
		}
		if err := makeDir(dir); err != nil {
			return nil, nil, err
		}
		port, err := freePort()
		if err != nil {
			return nil, nil, err
		}
		redis := exec.Command(path, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", dir, "--appendonly", "yes", "--appendfsync", fsync, "--save", "", "--loglevel", "warning")
		if err := redis.Start(); err != nil {
			return nil, nil, err
		}
		stop := func() error { return errors.Join(redis.Process.Signal(syscall.SIGTERM), redis.Wait()) }
		p := asynqPeer{asynq.RedisClientOpt{Addr: fmt.Sprintf("127.0.0.1:%d", port), PoolSize: 256}}
		if err := eventually(func() error {
			c := asynq.NewClient(p.redis)
			defer c.Close()
			return c.Ping()
		}); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		return map[row]measure{
			enqueue1:   p.enqueue(1),
			enqueue32:  p.enqueue(32),
			enqueue128: p.enqueue(128),
			work:       p.work,
			steady:     p.steady,
		}, stop, nil
	}
}

type asynqPeer struct{ redis asynq.RedisClientOpt }

// client empties the queue and returns a client.
func (p asynqPeer) client() (*asynq.Client, error) {
	inspector := asynq.NewInspector(p.redis)
	defer inspector.Close()
	if err := inspector.DeleteQueue("default", true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, err
	}
	return asynq.NewClient(p.redis), nil
}

func (p asynqPeer) enqueue(clients int) measure {
	return func(ctx context.Context, d time.Duration) (outcome, error) {
		c, err := p.client()
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		return drive(ctx, clients, d, func(ctx context.Context, _ int) (int, error) {
			_, err := c.EnqueueContext(ctx, asynq.NewTask(kind, payload(0)))
			return 1, err
		})
	}
}

// serve starts workers that report finished jobs to a flow.
func (p asynqPeer) serve(f *flow) (stop func(), err error) {
	s := asynq.NewServer(p.redis, asynq.Config{Concurrency: asynqWorkers, LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond})
	return s.Shutdown, s.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		f.done(madeAt(t.Payload()))
		return nil
	}))
}

func (p asynqPeer) work(ctx context.Context, d time.Duration) (outcome, error) {
	c, err := p.client()
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	// Asynq does about 10,000 jobs a second, and filling the queue is as slow.
	_, err = drive(ctx, 128, d, func(ctx context.Context, _ int) (int, error) {
		_, err := c.EnqueueContext(ctx, asynq.NewTask(kind, payload(0)))
		return 1, err
	})
	if err != nil {
		return outcome{}, err
	}
	return workFor(ctx, d, p.serve)
}

// workFor measures the rate at which workers do a backlog. It reports no latency, because
// the jobs were enqueued in advance.
func workFor(ctx context.Context, d time.Duration, serve func(*flow) (func(), error)) (outcome, error) {
	f := &flow{begin: time.Now()}
	stop, err := serve(f)
	if err != nil {
		return outcome{}, err
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	o := f.outcome()
	stop()
	return outcome{rate: o.rate}, ctx.Err()
}

func (p asynqPeer) steady(ctx context.Context, d time.Duration) (outcome, error) {
	c, err := p.client()
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	f := &flow{begin: time.Now()}
	stop, err := p.serve(f)
	if err != nil {
		return outcome{}, err
	}
	defer stop()
	return f.produce(ctx, d, streams, 1, func(ctx context.Context, _ int) error {
		_, err := c.EnqueueContext(ctx, asynq.NewTask(kind, payload(f.now())))
		return err
	})
}
