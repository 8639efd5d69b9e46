package server

import (
	"net/http/httptest"
	"testing"

	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/tenancy"
)

// TestFramesWaitWithoutMemory checks that keyRate.next and room.take allocate nothing, because both run
// before every frame.
func TestFramesWaitWithoutMemory(t *testing.T) {
	limits := ratelimit.Limits{PerKey: ratelimit.MaxRate, PerAddress: ratelimit.MaxRate}
	s := OpenForTest(t, host.Config{}, host.Spec{}, func(c *Config) { c.Limits = limits }).Server
	rate, in := s.keyRateOf(httptest.NewRequest("POST", "/", nil), tenancy.Principal{KeyID: "k"}), room{make(chan struct{}, 1), s.frames}
	if rate.limits == nil {
		t.Fatal("the limits do not hold for streams")
	}
	allocated := testing.AllocsPerRun(100, func() {
		if rate.next() != 0 || !in.take(nil) {
			t.Fatal("there is room, and it waits")
		}
		in.give()
	})
	if allocated != 0 {
		t.Errorf("a frame allocates %v times before it is begun", allocated)
	}
}
