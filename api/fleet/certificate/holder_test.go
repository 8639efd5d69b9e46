package certificate_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
)

func config(path string, who certificate.Identity, log *bytes.Buffer) certificate.Config {
	return certificate.Config{Path: path, Kind: who.Kind, Store: who.Store, Now: at(start), Logger: slog.New(slog.NewTextHandler(log, nil))}
}

// file opens a holder for a host and gives it a certificate. It returns the path of its file and its log.
func file(t *testing.T) (path string, h *certificate.Holder, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	path = filepath.Join(t.TempDir(), "member.pem")
	h, err := certificate.Open(config(path, host, log))
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(t, start)
	renew(t, h, host, start, root, bundleOf(t, root, newRoot(t, start)))
	return path, h, log
}

func TestTheFileIsReadAtTheNextStart(t *testing.T) {
	t.Parallel()
	path, h, log := file(t)
	if !strings.Contains(log.String(), "there is no certificate in "+path) || strings.Contains(log.String(), "WARN") {
		t.Error("the first start does not say that there is no file, or warns of it:", log)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode != 0o600 {
		t.Errorf("the file has the mode %o", mode)
	}
	log.Reset()
	again, err := certificate.Open(config(path, host, log))
	if err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Error("a usable file is not quiet:", log)
	}
	m, want := again.Member(), h.Member()
	if m == nil || m.Identity != want.Identity || !m.Ends().Equal(want.Ends()) || !m.Bundle.Equal(want.Bundle) {
		t.Fatalf("the file is read as %+v, want %+v", m, want)
	}
	if serverErr, clientErr := shake(h.Server(certificate.Only(host)), again.Client(certificate.Only(host))); serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if request, err := again.Request(); request != nil || err != nil {
		t.Error("a fresh certificate is renewed:", err)
	}
}

// TestATruncatedFileIsANewJoin cuts the file off at every byte but the last.
func TestATruncatedFileIsANewJoin(t *testing.T) {
	t.Parallel()
	path, _, _ := file(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.pem")
	for n := range len(whole) - 1 { // without its last newline the file is whole
		if err := os.WriteFile(cut, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := certificate.ReadMember(cut, host.Kind, host.Store); !errors.Is(err, certificate.ErrUnusable) {
			t.Fatalf("a file of %d of %d bytes: %v", n, len(whole), err)
		}
	}
	log := new(bytes.Buffer)
	if err := os.WriteFile(cut, whole[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := certificate.Open(config(cut, host, log))
	if err != nil || h.Member() != nil || h.Stage() != certificate.Expired {
		t.Fatal("a damaged file is used:", err)
	}
	if !strings.Contains(log.String(), "is damaged") || !strings.Contains(log.String(), "WARN") {
		t.Error("the log does not warn that the file is damaged:", log)
	}
	root := newRoot(t, start)
	renew(t, h, host, start, root, bundleOf(t, root))
}

func TestAFileOfAnotherMachineIsANewJoin(t *testing.T) {
	t.Parallel()
	path, _, _ := file(t)
	for _, c := range []struct {
		who  certificate.Identity
		part string
	}{
		{certificate.Identity{Kind: certificate.Host, Store: "store_2"}, "store_2"},
		{gateway, "this is a gateway"},
	} {
		log := new(bytes.Buffer)
		h, err := certificate.Open(config(path, c.who, log))
		if err != nil || h.Member() != nil {
			t.Fatalf("the file of %s is used by %+v: %v", host, c.who, err)
		}
		if !strings.Contains(log.String(), host.String()) || !strings.Contains(log.String(), c.part) {
			t.Error("the log does not name both:", log)
		}
	}
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := certificate.Open(config(t.TempDir(), host, new(bytes.Buffer))); err == nil || errors.Is(err, certificate.ErrUnusable) {
		t.Error("a directory is read:", err)
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	root, foreign := newRoot(t, start), newRoot(t, start)
	ours := bundleOf(t, root)
	h := open(t, host, at(start), "")
	refused(t, h.Accept(host.ID, nil, ours), api.Unauthorized, "no certificate")
	request, err := h.Request()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(root *certificate.Root, request []byte, who certificate.Identity, now time.Time) []byte {
		der, err := root.Issue(request, who, nil, now, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	strange, err := certificate.NewRequest(keyOf('b'))
	if err != nil {
		t.Fatal(err)
	}
	otherStore := host
	otherStore.Store = "store_2"
	refused(t, h.Accept(host.ID, []byte("x"), ours), api.ValidationError, "damaged")
	refused(t, h.Accept(host.ID, issue(root, strange, host, start), ours), api.ValidationError, "not for the key")
	refused(t, h.Accept(host.ID, issue(root, request, host, start), certificate.Bundle{}), api.ValidationError, "without a root")
	refused(t, h.Accept(host.ID, issue(foreign, request, host, start), ours), api.Unauthorized, "of another fleet")
	refused(t, h.Accept(host.ID, issue(root, request, otherStore, start), ours), api.Unauthorized, "store_2")
	refused(t, h.Accept(host.ID, issue(root, request, gateway, start), ours), api.Unauthorized, "gw_1")
	refused(t, h.Accept(host.ID, issue(root, request, host, start.Add(-certificate.Life-time.Second)), ours), api.Unauthorized, "11:59:59", "12:00:00")
	if h.Member() != nil {
		t.Fatal("a refused answer was taken")
	}
	if err := h.Accept(host.ID, issue(root, request, host, start), ours); err != nil {
		t.Fatal(err)
	}
	before := h.Member()
	refused(t, h.Accept(host.ID, issue(root, request, gateway, start), ours), api.Unauthorized)
	if h.Member() != before {
		t.Error("a refused answer replaced the certificate")
	}
}

// TestTheCredentialOfAnotherMember gives host_1, whose certificate is fresh, the credential of host_2. The
// holder then asks for a certificate of host_2.
func TestTheCredentialOfAnotherMember(t *testing.T) {
	t.Parallel()
	root := newRoot(t, start)
	ours := bundleOf(t, root)
	h := join(t, host, at(start), root, ours)
	refused(t, h.Accept("host_2", nil, ours), api.Unauthorized, host.String(), "host_2")
	if h.Member().Identity != host {
		t.Fatal("the certificate is already that of", h.Member().Identity)
	}
	other := host
	other.ID = "host_2"
	renew(t, h, other, start, root, ours)
	if got := h.Member().Identity; got != other {
		t.Error("the certificate is of", got)
	}
	if request, err := h.Request(); request != nil || err != nil {
		t.Error("the new certificate is renewed:", err)
	}
}

// TestAnOutageOfSixDaysIsSurvived takes the control plane away from a host and a gateway for 6 days, and then for more
// than the life of a certificate. The members ask for a new certificate with each join, as often as package fleet joins.
func TestAnOutageOfSixDaysIsSurvived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = 10 * time.Minute
		root := newRoot(t, time.Now())
		ours := bundleOf(t, root)
		members := map[certificate.Identity]*certificate.Holder{
			host: open(t, host, time.Now, ""), gateway: open(t, gateway, time.Now, ""),
		}
		renewals := 0
		// run lets time pass. Members reach the control plane only if it is up.
		run := func(d time.Duration, up bool, check func(since time.Duration)) {
			for begin := time.Now(); time.Since(begin) < d; time.Sleep(every) {
				for who, h := range members {
					if request, err := h.Request(); err != nil {
						t.Fatal(err)
					} else if up && request != nil {
						renew(t, h, who, time.Now(), root, ours)
						renewals++
					}
				}
				check(time.Since(begin))
			}
		}
		connect := func() error {
			serverErr, clientErr := shake(members[host].Server(certificate.Any(certificate.Gateway)), members[gateway].Client(certificate.Only(host)))
			return errors.Join(serverErr, clientErr)
		}
		connected := func(since time.Duration) {
			if since%(6*time.Hour) != 0 {
				return
			}
			if err := connect(); err != nil {
				t.Fatalf("after %v: %v", since, err)
			}
		}

		run(10*24*time.Hour, true, func(since time.Duration) {
			connected(since)
			for who, h := range members {
				if stage := h.Stage(); stage != certificate.Fresh {
					t.Fatalf("after %v the certificate of %s is %s", since, who, stage)
				}
			}
		})
		// In 10 days each member gets a first certificate and renews it 20 times, or up to 2 times more, because
		// renewals are up to an hour early.
		if renewals < 2*20 || renewals > 2*23 {
			t.Errorf("%d renewals in 10 days", renewals)
		}

		run(6*24*time.Hour, false, func(since time.Duration) {
			connected(since)
			for who, h := range members {
				left := time.Until(h.Member().Ends())
				if alarm := h.Stage() == certificate.Alarm; alarm != (left < certificate.AlarmBefore) || h.Remaining() != left {
					t.Fatalf("after %v %v are left to %s, and its certificate is %s with %v", since, left, who, h.Stage(), h.Remaining())
				}
			}
		})
		for who, h := range members {
			if h.Stage() != certificate.Alarm {
				t.Errorf("after 6 days the certificate of %s is %s", who, h.Stage())
			}
		}
		run(time.Hour, true, connected)
		for who, h := range members {
			if h.Stage() != certificate.Fresh {
				t.Errorf("after the outage the certificate of %s is %s", who, h.Stage())
			}
		}

		run(certificate.Life+time.Hour, false, func(time.Duration) {})
		refused(t, connect(), api.Unauthorized, "was valid until", "by the clock of this machine")
		run(time.Hour, true, connected)
	})
}

// TestHealthOfACertificate checks the warnings of /readyz at their bounds.
func TestHealthOfACertificate(t *testing.T) {
	t.Parallel()
	root := newRoot(t, start)
	now := start
	h := open(t, host, func() time.Time { return now }, "")
	check := func(at time.Time, part string, want bool, remaining time.Duration) {
		t.Helper()
		now = at
		if text, usable := h.Health(); usable != want || !strings.Contains(text, part) || h.Remaining() != remaining {
			t.Errorf("at %v: %q, usable %t, %v remain; want %q, %t, %v", at, text, usable, h.Remaining(), part, want, remaining)
		}
	}
	check(start, "has no certificate yet", false, 0)
	renew(t, h, host, start, root, bundleOf(t, root))
	alarm := start.Add(certificate.Life - certificate.AlarmBefore)
	check(start, "ok", true, certificate.Life)
	check(alarm, "ok", true, certificate.AlarmBefore)
	check(alarm.Add(time.Second), "expires at 2026-03-08T12:00:00Z", true, certificate.AlarmBefore-time.Second)
	check(start.Add(certificate.Life), "expires at", true, 0)
	check(start.Add(certificate.Life+time.Second), "was valid until 2026-03-08T12:00:00Z", false, 0)
	check(start.Add(-certificate.Slew-time.Second), "is valid from", false, certificate.Life+certificate.Slew+time.Second)
}

// TestStagesOfALife checks the bounds of each stage.
func TestStagesOfALife(t *testing.T) {
	t.Parallel()
	root := newRoot(t, start)
	m := join(t, host, at(start), root, bundleOf(t, root)).Member()
	alarm := start.Add(certificate.Life - certificate.AlarmBefore)
	for _, c := range []struct {
		now  time.Time
		want certificate.Stage
	}{
		{start.Add(-certificate.Slew - time.Nanosecond), certificate.NotYetValid},
		{start.Add(-certificate.Slew), certificate.Fresh},
		{start.Add(certificate.RenewAfter - certificate.RenewSpread), certificate.Fresh},
		{start.Add(certificate.RenewAfter), certificate.RenewalDue},
		{alarm, certificate.RenewalDue},
		{alarm.Add(time.Nanosecond), certificate.Alarm},
		{start.Add(certificate.Life), certificate.Alarm},
		{start.Add(certificate.Life + time.Nanosecond), certificate.Expired},
	} {
		if got := m.StageAt(c.now); got != c.want {
			t.Errorf("%v after the issue the certificate is %s, want %s", c.now.Sub(start), got, c.want)
		}
	}
}

// TestAnyCertificateHasAStage reads member files with certificates that the fleet's root signed and that Issue never
// makes. RFC 5280 forbids serial numbers of more than 20 bytes, but x509 parses them.
func TestAnyCertificateHasAStage(t *testing.T) {
	t.Parallel()
	root := newRoot(t, start)
	uri, err := url.Parse(host.String())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(keyOf('a'))
	if err != nil {
		t.Fatal(err)
	}
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for name, c := range map[string]struct {
		serial   *big.Int
		from, to time.Time
		want     certificate.Stage
	}{
		"a serial number of 0":         {new(big.Int), start, start.Add(certificate.Life), certificate.Fresh},
		"a serial number of 20 bytes":  {new(big.Int).Lsh(big.NewInt(1), 158), start, start.Add(certificate.Life), certificate.Fresh},
		"a serial number of 21 bytes":  {new(big.Int).Lsh(big.NewInt(1), 160), start, start.Add(certificate.Life), certificate.Fresh},
		"a serial number of 200 bytes": {new(big.Int).Lsh(big.NewInt(1), 1599), start, start.Add(certificate.Life), certificate.Fresh},
		"the longest life":             {big.NewInt(1), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), last, certificate.Fresh},
		"an end before its start":      {big.NewInt(1), start.Add(-time.Hour), start.Add(-2 * time.Hour), certificate.Expired},
	} {
		der := sign(t, root, &x509.Certificate{SerialNumber: c.serial, URIs: []*url.URL{uri}, NotBefore: c.from, NotAfter: c.to}, 'a')
		var text []byte
		for _, block := range []pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "CERTIFICATE", Bytes: root.DER()}, {Type: "PRIVATE KEY", Bytes: key}} {
			text = append(text, pem.EncodeToMemory(&block)...)
		}
		path := filepath.Join(t.TempDir(), "member.pem")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := certificate.Open(config(path, host, new(bytes.Buffer)))
		if err != nil || h.Member() == nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := h.Stage(); got != c.want {
			t.Errorf("%s: the certificate is %s, want %s", name, got, c.want)
		}
		if text, usable := h.Health(); usable != (c.want == certificate.Fresh) {
			t.Errorf("%s: usable %t: %s", name, usable, text)
		}
		if request, err := h.Request(); err != nil || (request == nil) != (c.want == certificate.Fresh) {
			t.Errorf("%s: asks for another certificate %t, %v", name, request != nil, err)
		}
	}
}

// TestHandshakesUseTheNewestCertificate replaces a certificate while a configuration is in use.
func TestHandshakesUseTheNewestCertificate(t *testing.T) {
	t.Parallel()
	now := start
	root := newRoot(t, start)
	ours := bundleOf(t, root)
	server := join(t, host, at(start), root, ours)
	client := open(t, gateway, func() time.Time { return now }, "")
	renew(t, client, gateway, now, root, ours)
	from, to := server.Server(certificate.Any(certificate.Gateway)), client.Client(certificate.Only(host))
	serial := func() string {
		t.Helper()
		state, serverErr, clientErr := shakeState(from, to)
		if serverErr != nil || clientErr != nil {
			t.Fatal(serverErr, clientErr)
		}
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	now = start.Add(certificate.RenewAfter)
	renew(t, client, gateway, start, root, ours)
	if serial() == first {
		t.Error("the replaced certificate is still shown")
	}
}
