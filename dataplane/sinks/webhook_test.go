package sinks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

const hookSecret = "0123456789abcdef"

// call is a request to a webhook.
type call struct {
	host, id, event, body, signature string
	at                               time.Time
}

// endpoints stands for all hosts that webhooks call.
type endpoints struct {
	mu       sync.Mutex
	calls    []call
	now      int // calls in progress
	most     int // the most at a time
	answer   func(ctx context.Context, host string, n int) (status int, err error)
	perHosts map[string]int
}

func (e *endpoints) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.calls = append(e.calls, call{r.URL.Host, r.Header.Get(HeaderWebhookID), r.Header.Get(HeaderWebhookEvent), string(body), r.Header.Get(HeaderSignature), time.Now()})
	e.now++
	e.most = max(e.most, e.now)
	if e.perHosts == nil {
		e.perHosts = map[string]int{}
	}
	n := e.perHosts[r.URL.Host]
	e.perHosts[r.URL.Host]++
	e.mu.Unlock()
	defer func() { e.mu.Lock(); e.now--; e.mu.Unlock() }()
	status, err := e.answer(r.Context(), r.URL.Host, n)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}}, nil
}

func (e *endpoints) got(host string) (all []call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if c.host == host {
			all = append(all, c)
		}
	}
	return all
}

// fine answers every call with success.
func fine(context.Context, string, int) (int, error) { return 200, nil }

// hooked is a world with a webhook sink.
type hooked struct {
	*world
	endpoints
	hooks  *Webhooks
	ids    uint32
	report func(o *op.ReportDeliveries) error // nil applies it
}

func newHooked(w *world, private bool, transport http.RoundTripper) *hooked {
	h := &hooked{world: w}
	h.answer = fine
	if transport == nil && !private {
		transport = &h.endpoints
	}
	h.hooks = NewWebhooks(WebhooksConfig{
		Store: w.store, Namespace: "ns_1", NowNs: func() int64 { return time.Now().UnixNano() }, Private: private, Transport: transport,
		Logger: slog.New(slog.DiscardHandler),
		Report: func(ctx context.Context, o *op.ReportDeliveries) error {
			if h.report != nil {
				return h.report(o)
			}
			_, err := w.apply(o)
			return err
		},
	})
	w.store.SetHooks(state.Hooks{OnTimer: func(class state.TimerClass, _ int64) {
		if class == state.TimerDelivery {
			h.hooks.OnDelivery()
		}
	}})
	return h
}

func inHooked(t *testing.T, test func(h *hooked)) {
	t.Helper()
	inWorld(t, func(_ *testing.T, w *world) { test(newHooked(w, false, nil)) })
}

func (h *hooked) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { h.hooks.Run(ctx); close(ended) }()
	return func() { cancel(); <-ended }
}

func (h *hooked) newID() job.ID {
	h.ids++
	return job.NewID(time.Now().UnixMilli(), "", job.Entropy{5: byte(h.ids >> 24), 6: byte(h.ids >> 16), 7: byte(h.ids >> 8), 8: byte(h.ids)})
}

// hook declares a webhook on a host of the same name.
func (h *hooked) hook(name string, more ...func(*state.Webhook)) {
	h.t.Helper()
	hook := &state.Webhook{Url: "https://" + name + "/", Secret: hookSecret, RetryLimit: 3}
	for _, change := range more {
		change(hook)
	}
	id := h.newID()
	h.mustApply(&op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
		Kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK, Name: name, Shards: 1, Webhook: hook,
	}})
}

// queue queues a delivery with the given body.
func (h *hooked) queue(name, body string) job.ID {
	h.t.Helper()
	id := h.newID()
	h.mustApply(&op.QueueDelivery{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Webhook: name, Event: "test", Body: []byte(body)})
	return id
}

func (h *hooked) delivery(id job.ID) *state.Delivery {
	h.t.Helper()
	d, err := h.store.Delivery(id)
	must(h.t, err)
	return d
}

func bodies(calls []call) (all []string) {
	for _, c := range calls {
		all = append(all, c.body)
	}
	return all
}

func TestDeliveriesAreSigned(t *testing.T) {
	inHooked(t, func(h *hooked) {
		h.hook("a")
		first := h.queue("a", `{"n":1}`) // from before the sink ran
		stop := h.run()
		defer stop()
		synctest.Wait()
		second := h.queue("a", `{"n":2}`)
		synctest.Wait()
		calls := h.got("a")
		if got := bodies(calls); !slices.Equal(got, []string{`{"n":1}`, `{"n":2}`}) {
			t.Fatalf("%v were sent", got)
		}
		for i, id := range []job.ID{first, second} {
			if c := calls[i]; c.id != DeliveryIDText(id) || c.event != "test" {
				t.Errorf("sent %+v", c)
			}
			d := h.delivery(id)
			if !d.Delivered || d.Attempts != 1 || d.PurgeNs == 0 {
				t.Errorf("recorded %v", d)
			}
			if d.LastStatus != 200 || d.LastError != "" {
				t.Errorf("the last attempt was answered %d, %q", d.LastStatus, d.LastError)
			}
		}
		stamp, sum, _ := strings.Cut(strings.TrimPrefix(calls[0].signature, "t="), ",v1=")
		mac := hmac.New(sha256.New, []byte(hookSecret))
		mac.Write([]byte(stamp + "." + calls[0].body))
		if sum != hex.EncodeToString(mac.Sum(nil)) || stamp != strconv.FormatInt(calls[0].at.Unix(), 10) {
			t.Errorf("signed %s at %d", calls[0].signature, calls[0].at.Unix())
		}
		before := len(h.log)
		pass(time.Hour)
		if len(h.log) != before || len(h.got("a")) != 2 {
			t.Error("it does something where there is nothing to do")
		}
	})
}

func TestAFailingEndpointIsTriedAgainAndGivenUp(t *testing.T) {
	inHooked(t, func(h *hooked) {
		h.hook("a")
		h.answer = func(_ context.Context, _ string, n int) (int, error) {
			if n < 4 {
				return 503, nil
			}
			return 204, nil
		}
		stop := h.run()
		defer stop()
		lost, next := h.queue("a", "1"), h.queue("a", "2")
		pass(time.Minute)
		calls := h.got("a")
		if got := bodies(calls); !slices.Equal(got, []string{"1", "1", "1", "1", "2"}) {
			t.Fatalf("%v were sent", got)
		}
		for i := 1; i < 4; i++ {
			least := minRetryDelay << (i - 1)
			if gap := calls[i].at.Sub(calls[i-1].at); gap < least || gap > time.Duration(float64(least)*(1+retryJitter))+time.Millisecond {
				t.Errorf("attempt %d came after %v; %v and a little was to be waited", i+1, gap, least)
			}
		}
		d := h.delivery(lost)
		if d.Delivered || d.DueNs != 0 || d.Attempts != 4 {
			t.Errorf("given up: %v", d)
		}
		if d.LastStatus != 503 || d.LastError != "answered 503" {
			t.Errorf("given up after %d, %q", d.LastStatus, d.LastError)
		}
		if d := h.delivery(next); !d.Delivered {
			t.Errorf("the one after it: %v", d)
		}
	})
}

func TestRetryDelays(t *testing.T) {
	t.Parallel()
	for retries := range uint32(40) {
		want := maxRetryDelay
		if retries < 7 {
			want = minRetryDelay << retries
		}
		if got := retryDelay(retries); got < want || got > time.Duration(float64(want)*(1+retryJitter)) {
			t.Errorf("after %d retries %v is waited, want %v and a little", retries, got, want)
		}
	}
}

// TestASlowEndpointDelaysNoOther checks that slow endpoints are bounded in time and in concurrent calls, and
// leave room for others.
func TestASlowEndpointDelaysNoOther(t *testing.T) {
	inHooked(t, func(h *hooked) {
		h.answer = func(ctx context.Context, host string, _ int) (int, error) {
			if strings.HasPrefix(host, "slow") {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 200, nil
		}
		once := func(hook *state.Webhook) { hook.RetryLimit = 0 }
		h.hook("slow", once)
		h.hook("fast")
		stop := h.run()
		defer stop()
		dead := h.queue("slow", "1")
		h.queue("slow", "2")
		for i := range 10 {
			h.queue("fast", fmt.Sprint(i))
		}
		synctest.Wait()
		if n := len(h.got("fast")); n != 10 {
			t.Errorf("%d of 10 reached the one that answers at once", n)
		}
		pass(attemptTimeout)
		if d := h.delivery(dead); d.DueNs != 0 || d.LastStatus != 0 || d.LastError != "there was no answer within 10s" {
			t.Errorf("no answer: %v", d)
		}
		pass(attemptTimeout)
		for i := range 3 * maxAttemptsAtOnce {
			name := fmt.Sprint("slow", i)
			h.hook(name, once)
			h.queue(name, "x")
		}
		pass(3*attemptTimeout + time.Second)
		if h.most != maxAttemptsAtOnce {
			t.Errorf("%d were called at once", h.most)
		}
		for i := range 3 * maxAttemptsAtOnce {
			if n := len(h.got(fmt.Sprint("slow", i))); n != 1 {
				t.Errorf("slow%d was called %d times", i, n)
			}
		}
	})
}

// TestDeliveriesToNobodyAreGivenUp checks that a deleted or disabled webhook is not called.
func TestDeliveriesToNobodyAreGivenUp(t *testing.T) {
	inHooked(t, func(h *hooked) {
		h.hook("gone")
		h.hook("off")
		gone, off := h.queue("gone", "1"), h.queue("off", "1")
		h.mustApply(&op.DeleteResource{Kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK, Name: "gone", Shards: 1})
		h.hook("off", func(hook *state.Webhook) { hook.Disabled = true })
		stop := h.run()
		defer stop()
		synctest.Wait()
		for id, want := range map[job.ID]string{gone: "the webhook was deleted", off: "the webhook is not enabled"} {
			if d := h.delivery(id); d.DueNs != 0 || d.Delivered || d.LastError != want {
				t.Errorf("%v, want %s", d, want)
			}
		}
		if len(h.calls) != 0 {
			t.Errorf("%v were sent", h.calls)
		}
	})
}

// TestDeliveriesArriveInOrder checks that each delivery arrives at least once, and those to a webhook in
// order, wherever a call fails or the sink is replaced.
func TestDeliveriesArriveInOrder(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inHooked(t, func(h *hooked) {
				random := rand.New(rand.NewPCG(seed, 1))
				var mu sync.Mutex
				below := func(n int) int { mu.Lock(); defer mu.Unlock(); return random.IntN(n) }
				chance := func(n int) bool { return below(n) == 0 }
				// Answers are late, lost or bad; often enough a good one arrives.
				h.answer = func(ctx context.Context, _ string, n int) (int, error) {
					if chance(2) {
						time.Sleep(time.Second)
					}
					switch {
					case ctx.Err() != nil:
						return 0, ctx.Err()
					case chance(4):
						return 0, errors.New("connection reset")
					case chance(4):
						return 500, nil
					}
					return 200, nil
				}
				h.report = func(o *op.ReportDeliveries) error {
					if chance(6) {
						return errors.New("lost on the way there")
					}
					if _, err := h.apply(o); err != nil {
						return err
					}
					if chance(6) {
						return errors.New("lost on the way back")
					}
					return nil
				}
				hosts := []string{"a", "b", "c"}
				for _, host := range hosts {
					h.hook(host, func(hook *state.Webhook) { hook.RetryLimit = job.MaxWebhookRetries })
				}
				want := map[string][]string{}
				for i := range 30 {
					stop := h.run()
					for range below(4) {
						host := hosts[below(len(hosts))]
						want[host] = append(want[host], DeliveryIDText(h.queue(host, fmt.Sprint(i))))
					}
					time.Sleep(time.Duration(below(3000)) * time.Millisecond)
					stop()
				}
				stop := h.run()
				pass(24 * time.Hour)
				stop()
				for _, host := range hosts {
					var got []string
					for _, c := range h.got(host) {
						got = append(got, c.id)
					}
					if got = slices.Compact(got); !slices.Equal(got, want[host]) {
						t.Errorf("%s got %v, want %v", host, got, want[host])
					}
				}
			})
		})
	}
}

// realHooked returns a sink that calls real addresses.
func realHooked(t *testing.T, private bool) *hooked {
	t.Helper()
	w := newWorld(t)
	h := newHooked(w, private, newTransport(private))
	stop := h.run()
	t.Cleanup(func() { stop(); w.close() })
	return h
}

// settled waits until a delivery is delivered or given up.
func (h *hooked) settled(id job.ID) *state.Delivery {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if d := h.delivery(id); d.DueNs == 0 {
			return d
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("delivery %s is not over", id)
		}
	}
}

func (h *hooked) at(name, url string) {
	h.t.Helper()
	h.hook(name, func(hook *state.Webhook) { hook.Url, hook.RetryLimit = url, 0 })
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 10)
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called <- struct{}{} }))
	defer to.Close()
	h := realHooked(t, false)
	h.at("address", to.URL)
	h.at("name", strings.Replace(to.URL, "127.0.0.1", "localhost", 1))
	for _, name := range []string{"address", "name"} {
		d := h.settled(h.queue(name, "{}"))
		if d.Delivered || d.LastStatus != 0 || !strings.Contains(d.LastError, "--webhook-allow-private") {
			t.Errorf("%s: %v", name, d)
		}
	}
	if len(called) != 0 {
		t.Error("it was called")
	}
	allowed := realHooked(t, true)
	allowed.at("address", to.URL)
	if d := allowed.settled(allowed.queue("address", "{}")); !d.Delivered {
		t.Errorf("where they may be called: %v", d)
	}
}

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	public := []string{
		"8.8.8.8", "1.1.1.1", "99.255.255.255", "100.128.0.0", "168.63.129.15", "168.63.129.17", "192.0.1.255", "192.0.3.0", "192.88.98.255", "192.88.100.0",
		"198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "::ffff:8.8.8.8",
		"2606:4700::1111", "2001:200::", "2001:db7:ffff::", "2001:db9::", "2003::", "3fff:1000::", "2a00::1",
	}
	refused := map[string][]string{
		"loopback":        {"127.0.0.1", "127.8.9.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"},
		"unspecified":     {"0.0.0.0", "0.1.2.3", "0.255.255.255", "::"},
		"private":         {"10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255", "fc00::", "fd00::1", "fd00:ec2::254", "::ffff:10.0.0.1"},
		"link-local":      {"169.254.0.0", "169.254.169.254", "169.254.255.255", "fe80::1", "fe80::1%eth0", "febf::1", "::ffff:169.254.169.254"},
		"site-local":      {"fec0::1", "feff::1"},
		"carriers":        {"100.64.0.0", "100.100.100.200", "100.127.255.255"},
		"platforms":       {"168.63.129.16", "192.0.0.192", "::ffff:168.63.129.16"},
		"assignments":     {"192.0.0.0", "192.0.0.255", "2001::", "2001:1ff:ffff::"},
		"documentation":   {"192.0.2.0", "192.0.2.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255", "2001:db8::", "2001:db8:ffff::1", "3fff::", "3fff:fff:ffff::1"},
		"relays":          {"192.88.99.0", "192.88.99.1", "192.88.99.255"},
		"benchmarks":      {"198.18.0.0", "198.19.255.255", "2001:2::1"},
		"multicast":       {"224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"},
		"reserved":        {"240.0.0.0", "255.255.255.254", "255.255.255.255", "100::1", "4000::1", "5f00::1"},
		"IPv4 in IPv6":    {"::7f00:1", "::a00:1", "::ffff:0:a00:1", "::ffff:0:808:808"},
		"NAT64":           {"64:ff9b::a00:1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1"},
		"6to4 and Teredo": {"2002:a00:1::", "2002:7f00:1::1", "2001:0:1::", "2001::f5ff:fffe"},
	}
	none := func() ([]net.Addr, error) { return nil, nil }
	for _, address := range public {
		if err := refuse(netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), none); err != nil {
			t.Error(err)
		}
	}
	for kind, addresses := range refused {
		for _, address := range addresses {
			err := refuse(netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), none)
			if err == nil || !strings.Contains(err.Error(), "--webhook-allow-private") {
				t.Errorf("%s: %s: %v", kind, address, err)
			}
		}
	}
	if refuse("nonsense", none) == nil {
		t.Error("nonsense is an address")
	}
}

// TestOwnAddressesAreRefused checks that the machine's own public addresses are refused.
func TestOwnAddressesAreRefused(t *testing.T) {
	t.Parallel()
	own := func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.ParseIP("8.8.4.4"), Mask: net.CIDRMask(24, 32)}, // other addresses of its network are not its own
			&net.IPNet{IP: net.ParseIP("2606:4700::7"), Mask: net.CIDRMask(64, 128)},
		}, nil
	}
	for address, want := range map[string]bool{
		"8.8.4.4:80": false, "[::ffff:8.8.4.4]:80": false, "[2606:4700::7]:80": false, "8.8.4.5:80": true, "[2606:4700::8]:80": true,
	} {
		if err := refuse(address, own); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "an address of this machine") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := refuse("8.8.8.8:80", func() ([]net.Addr, error) { return nil, errors.New("no interfaces") }); err == nil || !strings.Contains(err.Error(), "no interfaces") {
		t.Errorf("where the machine's addresses are not known: %v", err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil || len(addresses) == 0 {
		t.Fatalf("%d addresses of this machine: %v", len(addresses), err)
	}
	for _, a := range addresses {
		ip, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		if err := refusePrivate("tcp", netip.AddrPortFrom(ip.Unmap(), 80).String(), nil); err == nil {
			t.Errorf("%s is called", ip)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	followed := make(chan struct{}, 10)
	there := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed <- struct{}{} }))
	defer there.Close()
	here := httptest.NewServer(http.RedirectHandler(there.URL, http.StatusTemporaryRedirect))
	defer here.Close()
	h := realHooked(t, true)
	h.at("a", here.URL)
	if d := h.settled(h.queue("a", "{}")); d.Delivered || d.LastStatus != http.StatusTemporaryRedirect || len(followed) != 0 {
		t.Errorf("%v, followed %d times", d, len(followed))
	}
}

// TestAnswersAreReadInPart checks that an endless answer is not read to its end.
func TestAnswersAreReadInPart(t *testing.T) {
	t.Parallel()
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, maxAnswerBytes)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	h := realHooked(t, true)
	h.at("a", endless.URL+"/?token=hidden")
	if d := h.settled(h.queue("a", "{}")); !d.Delivered {
		t.Errorf("%v", d)
	}
	endless.Close()
	if d := h.settled(h.queue("a", "{}")); d.Delivered || d.LastError == "" || strings.Contains(d.LastError, "hidden") {
		t.Errorf("%v", d)
	}
}

func TestErrorsAreLegible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"a\xffb": 3, strings.Repeat("ä", job.MaxDeliveryError): job.MaxDeliveryError, "x" + strings.Repeat("ä", job.MaxDeliveryError): job.MaxDeliveryError - 1} {
		if got := errorText(errors.New(text)); len(got) != want || job.CheckText(got, job.MaxDeliveryError) != nil {
			t.Errorf("%d bytes of %.10q became %d", len(text), text, len(got))
		}
	}
}
