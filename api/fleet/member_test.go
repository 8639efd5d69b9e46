package fleet_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// received records the messages of a follower.
type received struct {
	mu      sync.Mutex
	docs    []fleet.Doc
	number  int64 // of the last heartbeat
	early   bool  // a heartbeat's number was beyond the handled documents
	onDoc   func(fleet.Doc) error
	handled int64
}

func (h *received) follow() fleet.Follow {
	return fleet.Follow{
		OnDoc: func(d fleet.Doc) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.docs = append(h.docs, d)
			if h.onDoc != nil {
				if err := h.onDoc(d); err != nil {
					return err
				}
			}
			h.handled = d.Number
			return nil
		},
		OnNumber: func(n int64) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.early = h.early || n > h.handled
			h.number = n
		},
	}
}

// numbers returns the numbers of the documents so far.
func (h *received) numbers() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []int64
	for _, d := range h.docs {
		all = append(all, d.Number)
	}
	return all
}

func member(t *testing.T, c *fleettest.ControlPlane, kind keyring.Kind) *fleet.Member {
	t.Helper()
	m, err := fleet.NewMember(fleet.MemberConfig{
		ControlPlane: c.URL,
		Credential:   c.Register("m1", kind),
		Join:         fleet.JoinRequest{Address: "http://127.0.0.1:1", Version: "test"},
		Logger:       slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs a member until the test ends.
func run(t *testing.T, m *fleet.Member, f fleet.Follow) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx, f) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ends with %v", err)
		}
		m.Close()
	})
}

func open(namespace string) fleet.Doc {
	return fleet.Doc{
		Namespace: namespace, Name: namespace, Org: "org_1", Generation: 1, Desired: fleet.Open, Ready: true,
		Members: []fleet.GroupMember{{Store: "store_1", Host: "m1", Role: fleet.Join}},
	}
}

func wait(t *testing.T, h *received, numbers ...int64) {
	t.Helper()
	fleettest.Eventually(t, "the documents have come", func() bool { return len(h.numbers()) >= len(numbers) })
	if got := h.numbers(); !slices.Equal(got, numbers) {
		t.Fatalf("documents %v, want %v", got, numbers)
	}
}

func TestMemberFollows(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	c.Put(open("a"))
	c.Put(open("b"))
	m := member(t, c, keyring.Gateway)
	if m.ID() != "" || m.Token() != "" {
		t.Errorf("a member that has not joined has the id %q and the token %q", m.ID(), m.Token())
	}
	if m.Connected() || m.Trusted().Len() != 0 {
		t.Errorf("a member that has not joined is connected (%v) or trusts %d keys", m.Connected(), m.Trusted().Len())
	}
	var h received
	run(t, m, h.follow())
	wait(t, &h, 1, 2)
	c.Put(open("a"))
	wait(t, &h, 1, 2, 3)
	fleettest.Eventually(t, "a heartbeat has come", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.number == 3 })
	if h.early {
		t.Error("a heartbeat told of documents before they were handled")
	}
	if m.ID() != "m1" || !m.Connected() || m.Number() != 3 {
		t.Errorf("id %q, connected %v, number %d", m.ID(), m.Connected(), m.Number())
	}
	if _, err := c.Trusted().Verify(m.Token(), token.ControlPlane, time.Now()); err != nil {
		t.Errorf("its token: %v", err)
	}
	if _, err := c.Trusted().Verify(m.HostToken(), token.Hosts, time.Now()); err != nil {
		t.Errorf("its token for hosts: %v", err)
	}
	if err := m.Run(t.Context(), fleet.Follow{}); err == nil {
		t.Error("it runs twice")
	}
}

// TestMemberOutlivesTheControlPlane checks that a member keeps its documents while the control plane is
// down, and that it then misses no document and gets none twice.
func TestMemberOutlivesTheControlPlane(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	c.SetDown(true)
	m := member(t, c, keyring.Host)
	var h received
	run(t, m, h.follow())
	if _, err := m.SendUsage(t.Context(), billing.Frame{}); api.CodeOf(err) != api.LeaderUnavailable {
		t.Errorf("usage before the first join: %v", err)
	}
	c.SetDown(false)
	c.Put(open("a"))
	wait(t, &h, 1)
	c.SetDown(true)
	fleettest.Eventually(t, "it knows", func() bool { return !m.Connected() })
	if _, err := m.Report(t.Context(), fleet.Report{}); api.CodeOf(err) != api.LeaderUnavailable {
		t.Errorf("a report to nobody: %v", err)
	}
	c.Put(open("b"))
	c.Put(open("c"))
	c.SetDown(false)
	wait(t, &h, 1, 2, 3)
	fleettest.Eventually(t, "it is connected", m.Connected)
}

// TestMemberHandlesAgain checks that a document whose handling failed comes again, because nothing else
// would bring it back.
func TestMemberHandlesAgain(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	failures := 2
	h := received{onDoc: func(d fleet.Doc) error {
		if d.Number == 2 && failures > 0 {
			failures--
			return errors.New("the disk is full")
		}
		return nil
	}}
	run(t, member(t, c, keyring.Host), h.follow())
	c.Put(open("a"))
	c.Put(open("b"))
	wait(t, &h, 1, 2, 2, 2)
}

// TestMemberKeepsFirst checks that a document is on disk before it is handled.
func TestMemberKeepsFirst(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	var mu sync.Mutex
	var story []string
	refusals := 1
	f := fleet.Follow{
		Keep: func(messages ...fleet.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if len(messages) != 1 {
				t.Errorf("%d messages at once", len(messages))
			}
			if len(messages[0].Doc) == 0 {
				if _, err := token.ParseSet(messages[0].JWKS); err != nil {
					t.Error(err)
				}
				story = append(story, "keys")
				return nil
			}
			if refusals > 0 {
				refusals--
				story = append(story, "not kept")
				return errors.New("the disk is full")
			}
			story = append(story, "kept")
			return nil
		},
		OnDoc: func(fleet.Doc) error {
			mu.Lock()
			defer mu.Unlock()
			story = append(story, "done")
			return nil
		},
	}
	run(t, member(t, c, keyring.Host), f)
	c.Put(open("a"))
	told := func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(story, ", ") }
	fleettest.Eventually(t, "it is done", func() bool { return strings.HasSuffix(told(), "done") })
	c.Rotate(false)
	fleettest.Eventually(t, "new keys are kept", func() bool { return strings.HasSuffix(told(), "keys") })
	if want := "keys, not kept, kept, done, keys"; told() != want {
		t.Errorf("it was: %s; want: %s", told(), want)
	}
}

// TestMemberKeepsABatch checks that documents that come together are kept by one call, and that the documents before a
// forged one count although it came with them.
func TestMemberKeepsABatch(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	for _, name := range []string{"a", "b", "c"} {
		c.Put(open(name))
	}
	c.Put(open("d"))
	var mu sync.Mutex
	var kept [][]int64
	told := func() string { mu.Lock(); defer mu.Unlock(); return fmt.Sprint(kept) }
	var h received
	f := h.follow()
	f.Keep = func(messages ...fleet.Message) error {
		mu.Lock()
		defer mu.Unlock()
		var numbers []int64
		for _, m := range messages {
			if len(m.Doc) > 0 {
				numbers = append(numbers, m.Number)
			}
		}
		if numbers != nil {
			kept = append(kept, numbers)
		}
		return nil
	}
	m := member(t, c, keyring.Host)
	run(t, m, f)
	wait(t, &h, 1, 2, 3, 4)
	if told() != "[[1 2 3 4]]" {
		t.Errorf("kept: %s", told())
	}
	good, bad := open("e"), open("f")
	good.Number, bad.Number = 5, 6
	forged := c.Sign(bad)
	forged.Signature = ""
	streams := c.Streams()
	c.Inject(c.Sign(good), forged)
	fleettest.Eventually(t, "the forged document has broken the stream", func() bool { return c.Streams() > streams })
	wait(t, &h, 1, 2, 3, 4, 5)
}

// TestMemberTakesNoForgery checks that a member handles only documents with a signature of the control
// plane and a newer number.
func TestMemberTakesNoForgery(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	other := fleettest.New(t)
	var h received
	m := member(t, c, keyring.Host)
	run(t, m, h.follow())
	old := c.Sign(c.Put(open("a")))
	wait(t, &h, 1)
	c.Put(open("a"))
	wait(t, &h, 1, 2)

	future := open("a")
	future.Number = 100
	good := c.Sign(future)
	tampered := good
	tampered.Doc = json.RawMessage(strings.Replace(string(good.Doc), `"m1"`, `"m2"`, 1))
	renumbered := old
	renumbered.Number = 101
	unsigned := good
	unsigned.Signature = ""
	nameless := fleet.Doc{Number: 102}
	for name, msg := range map[string]fleet.Message{
		"tampered with": tampered, "an old one under a new number": renumbered, "not signed": unsigned,
		"signed by a other": other.Sign(future), "of no namespace": c.Sign(nameless),
	} {
		// The member notices each of them and starts the stream again.
		before := c.Streams()
		c.Inject(msg)
		fleettest.Eventually(t, "a document "+name+" has broken the stream", func() bool { return c.Streams() > before })
		if got := h.numbers(); !slices.Equal(got, []int64{1, 2}) {
			t.Fatalf("a document %s is taken: %v", name, got)
		}
		fleettest.Eventually(t, "it is connected again", m.Connected)
	}
	// A repeated valid document is no error and is not handled again.
	c.Inject(old)
	c.Put(open("b"))
	wait(t, &h, 1, 2, 3)
}

// TestMemberLearnsKeys checks that a member fetches a signing key that the stream has not announced yet.
func TestMemberLearnsKeys(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	var h received
	m := member(t, c, keyring.Host)
	run(t, m, h.follow())
	c.Put(open("a"))
	wait(t, &h, 1)
	c.Rotate(true)
	c.Put(open("b"))
	wait(t, &h, 1, 2)
	if m.Trusted().Len() != 2 {
		t.Errorf("it trusts %d keys", m.Trusted().Len())
	}
	// A retired key is no longer trusted, and a token that it signed is replaced.
	c.Rotate(false)
	c.Retire()
	fleettest.Eventually(t, "it trusts only the new key", func() bool { return bytes.Equal(m.Trusted().JWKS(), c.Trusted().JWKS()) })
	fleettest.Eventually(t, "a report is taken again", func() bool {
		_, err := m.Report(t.Context(), fleet.Report{})
		return err == nil
	})
}

func TestMemberRenewsItsToken(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	c.SetLifetime(2 * time.Second)
	var h received
	run(t, member(t, c, keyring.Host), h.follow())
	start := time.Now()
	fleettest.Eventually(t, "it has joined again", func() bool { return c.Joins() >= 2 })
	if took := time.Since(start); took < 900*time.Millisecond {
		t.Errorf("it joined again after %v, before half of the token's life", took)
	}
}

// TestMemberRefused checks that the log has a refused credential once, not for every try, and never its
// text.
func TestMemberRefused(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	credential, _, _, err := keyring.New(rand.Reader, keyring.Host)
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	m, err := fleet.NewMember(fleet.MemberConfig{ControlPlane: c.URL + "/", Credential: credential, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	run(t, m, fleet.Follow{})
	fleettest.Eventually(t, "it has tried three times", func() bool { return c.Refused() >= 3 })
	text := log.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, "the credential is not valid") || strings.Contains(text, credential) {
		t.Errorf("the log says:\n%s", text)
	}
}

// TestMemberIsQuietAboutRoutine checks that the log does not mention the end of a stream with its token,
// because nobody reads a log of such lines.
func TestMemberIsQuietAboutRoutine(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	var log lockedBuffer
	m, err := fleet.NewMember(fleet.MemberConfig{
		ControlPlane: c.URL, Credential: c.Register("m1", keyring.Host), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	var h received
	run(t, m, h.follow())
	for n := range 3 {
		fleettest.Eventually(t, "it is connected", func() bool { return c.Streams() > n && m.Connected() })
		c.End()
	}
	c.Put(open("a"))
	wait(t, &h, 1)
	if text := log.String(); strings.Count(text, "\n") != 2 || strings.Contains(text, "WARN") {
		t.Errorf("the log says:\n%s", text)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// TestMemberNoticesSilence checks that a member leaves a connection that is open but dead.
func TestMemberNoticesSilence(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	var h received
	m := member(t, c, keyring.Host)
	run(t, m, h.follow())
	fleettest.Eventually(t, "it is connected", m.Connected)
	before := c.Streams()
	c.SetSilent(true)
	fleettest.Eventually(t, "it connects again", func() bool { return c.Streams() > before })
	if m.Connected() {
		t.Error("it says it is connected to one who does not speak")
	}
	c.SetSilent(false)
	c.Put(open("a"))
	wait(t, &h, 1)
}

func TestMemberCalls(t *testing.T) {
	t.Parallel()
	c := fleettest.New(t)
	m := member(t, c, keyring.Host)
	run(t, m, fleet.Follow{})
	fleettest.Eventually(t, "it has joined", func() bool { return m.Token() != "" })
	report := fleet.Report{Number: 4, Cells: []fleet.CellReport{{Namespace: "a", Generation: 1, State: fleet.Opened}}, LastUsed: map[string]int64{"k": 5}}
	if _, err := m.Report(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]fleet.Report{report}, c.Reports()); diff != "" {
		t.Errorf("the control plane's reports (-want +got):\n%s", diff)
	}
	source := billing.Source{Namespace: "a b&c", Stream: "shard/0", Incarnation: "ff"}
	if last, err := m.LastUsage(t.Context(), source); last != 0 || err != nil {
		t.Errorf("at first: %d, %v", last, err)
	}
	frame := billing.Frame{Source: source, From: 1, To: 3, Rows: []billing.Row{{Meter: billing.Reports, Quantity: 7}}}
	frame.Hash = billing.HashRows(frame.Rows)
	for range 2 { // the second is a repeat
		if last, err := m.SendUsage(t.Context(), frame); last != 3 || err != nil {
			t.Errorf("%d, %v", last, err)
		}
	}
	if last, err := m.LastUsage(t.Context(), source); last != 3 || err != nil {
		t.Errorf("then: %d, %v", last, err)
	}
	c.Handle("POST "+fleet.AsidePath, func(w http.ResponseWriter, r *http.Request) {
		var got billing.Frame
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || got.Source != source || got.From != 4 {
			t.Errorf("asked to set %+v aside: %v", got, err)
		}
		_, _ = io.WriteString(w, `{"last":4}`)
	})
	if last, err := m.SetUsageAside(t.Context(), billing.Frame{Source: source, From: 4, To: 4}); last != 4 || err != nil {
		t.Errorf("set aside up to %d, %v", last, err)
	}
	frame.From, frame.To = 5, 5
	_, err := m.SendUsage(t.Context(), frame)
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.StateConflict || !strings.Contains(e.Message, "3 was the last") {
		t.Errorf("a gap: %v", err)
	}
	if got := c.Used(source.Namespace)[billing.Reports]; got != 7 {
		t.Errorf("%d requests are counted, want 7", got)
	}
}

func TestNewMemberRefuses(t *testing.T) {
	t.Parallel()
	tenants, _, _, err := keyring.New(rand.Reader, keyring.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"", "cloud.example.com", "ftp://cloud.example.com", "http://", "http://x?y=z", "http://x\x00"} {
		_, err := fleet.NewMember(fleet.MemberConfig{ControlPlane: url, Credential: tenants})
		if err == nil || !strings.Contains(err.Error(), "control plane") || !strings.Contains(err.Error(), "fleet credential") {
			t.Errorf("%q: %v does not name both faults", url, err)
		}
		if strings.Contains(err.Error(), tenants) {
			t.Errorf("the error shows the credential: %v", err)
		}
	}
}
