package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	natsFast = "NATS JetStream, no fsync"
	natsSafe = "NATS JetStream, fsync always"

	subject = "jobs"
	// pullers is the number of fetching clients. More than the cores would only wait for
	// each other.
	pullers = 8
)

// openNATS starts the server in this process. Clients connect over TCP.
func openNATS(always bool) func(context.Context, string) (map[row]measure, func() error, error) {
	return func(_ context.Context, dir string) (map[row]measure, func() error, error) {
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, SyncAlways: always, NoLog: true, NoSigs: true})
		if err != nil {
			return nil, nil, err
		}
		s.Start()
		stop := func() error { s.Shutdown(); s.WaitForShutdown(); return nil }
		if !s.ReadyForConnections(10 * time.Second) {
			return nil, nil, errors.Join(errors.New("the server accepts no connections"), stop())
		}
		p := natsPeer{s.ClientURL()}
		measures := map[row]measure{
			enqueue1:    p.publish(1),
			enqueue32:   p.publish(32),
			enqueue128:  p.publish(128),
			bulkEnqueue: p.publishMany,
			steady:      p.steady,
		}
		if !always { // with fsync, filling a backlog takes longer than the rest of the run
			measures[work] = p.pull
		}
		return measures, stop, nil
	}
}

type natsPeer struct{ url string }

// clients empties the stream and connects n clients.
func (p natsPeer) clients(ctx context.Context, n int) (all []jetstream.JetStream, closeAll func(), err error) {
	var conns []*nats.Conn
	closeAll = func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range n {
		c, err := nats.Connect(p.url)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		conns = append(conns, c)
		js, err := jetstream.New(c, jetstream.WithPublishAsyncMaxPending(window))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		all = append(all, js)
	}
	if err := all[0].DeleteStream(ctx, "JOBS"); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		closeAll()
		return nil, nil, err
	}
	err = eventually(func() error { // creation fails while the files of the last stream are being removed
		_, err := all[0].CreateStream(ctx, jetstream.StreamConfig{Name: "JOBS", Subjects: []string{subject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage})
		return err
	})
	if err != nil {
		closeAll()
	}
	return all, closeAll, err
}

// publish measures clients that wait for the acknowledgement of each message.
func (p natsPeer) publish(clients int) measure {
	return func(ctx context.Context, d time.Duration) (outcome, error) {
		all, closeAll, err := p.clients(ctx, clients)
		if err != nil {
			return outcome{}, err
		}
		defer closeAll()
		return drive(ctx, clients, d, func(ctx context.Context, i int) (int, error) {
			_, err := all[i].Publish(ctx, subject, payload(0))
			return 1, err
		})
	}
}

// publishMany measures clients that wait for the acknowledgements of 64 messages at once.
func (p natsPeer) publishMany(ctx context.Context, d time.Duration) (outcome, error) {
	all, closeAll, err := p.clients(ctx, pullers)
	if err != nil {
		return outcome{}, err
	}
	defer closeAll()
	return drive(ctx, pullers, d, func(ctx context.Context, i int) (int, error) { return atOnce, publishSome(ctx, all[i], 0) })
}

func publishSome(ctx context.Context, js jetstream.JetStream, at int64) error {
	futures := make([]jetstream.PubAckFuture, atOnce)
	for k := range futures {
		var err error
		if futures[k], err = js.PublishAsync(subject, payload(at)); err != nil {
			return err
		}
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// pull measures clients that fetch and acknowledge a backlog.
func (p natsPeer) pull(ctx context.Context, d time.Duration) (outcome, error) {
	all, closeAll, err := p.clients(ctx, pullers)
	if err != nil {
		return outcome{}, err
	}
	defer closeAll()
	for range jobsFor(2*d) / atOnce {
		if err := publishSome(ctx, all[0], 0); err != nil {
			return outcome{}, err
		}
	}
	consumers, err := consumersOf(ctx, all)
	if err != nil {
		return outcome{}, err
	}
	return drive(ctx, pullers, d, func(_ context.Context, i int) (int, error) {
		made, err := pullSome(consumers[i])
		return len(made), err
	})
}

func consumersOf(ctx context.Context, all []jetstream.JetStream) (consumers []jetstream.Consumer, err error) {
	for _, js := range all {
		c, err := js.CreateOrUpdateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1 << 20})
		if err != nil {
			return nil, err
		}
		consumers = append(consumers, c)
	}
	return consumers, nil
}

// pullSome fetches messages and acknowledges them without waiting for a confirmation.
func pullSome(c jetstream.Consumer) (made []int64, err error) {
	batch, err := c.Fetch(atOnce, jetstream.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		if err := m.Ack(); err != nil {
			return nil, err
		}
		made = append(made, madeAt(m.Data()))
	}
	return made, batch.Error()
}

// steady measures publishing and pulling at the same time.
func (p natsPeer) steady(ctx context.Context, d time.Duration) (outcome, error) {
	all, closeAll, err := p.clients(ctx, 2*pullers)
	if err != nil {
		return outcome{}, err
	}
	defer closeAll()
	consumers, err := consumersOf(ctx, all[pullers:])
	if err != nil {
		return outcome{}, err
	}
	f := &flow{begin: time.Now()}
	var over atomic.Bool
	pulled := make(chan error, pullers)
	for _, c := range consumers {
		go func() {
			for !over.Load() {
				made, err := pullSome(c)
				if err != nil {
					pulled <- err
					return
				}
				f.done(made...)
			}
			pulled <- nil
		}()
	}
	o, err := f.produce(ctx, d, pullers, atOnce, func(ctx context.Context, i int) error { return publishSome(ctx, all[i], f.now()) })
	over.Store(true)
	for range consumers {
		err = errors.Join(err, <-pulled)
	}
	return o, err
}
