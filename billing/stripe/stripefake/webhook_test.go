package stripefake

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// receiver is an endpoint that records deliveries.
type receiver struct {
	mu     sync.Mutex
	status int
	types  []string
	header string
	body   []byte
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.body, _ = io.ReadAll(req.Body)
	var e object
	_ = json.Unmarshal(r.body, &e)
	name, _ := e["type"].(string)
	r.types = append(r.types, name)
	r.header = req.Header.Get("Stripe-Signature")
	w.WriteHeader(r.status)
}

// take returns the types of the deliveries since the last call.
func (r *receiver) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	types := r.types
	r.types = nil
	return types
}

func TestDeliveriesAreSignedRepeatedAndRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := &receiver{status: 200}
	web := httptest.NewServer(r)
	t.Cleanup(web.Close)
	endpoint := f.do("POST", "/v1/webhook_endpoints", "url="+web.URL, "enabled_events[0]=customer.created", "enabled_events[1]=invoice.created", "api_version="+APIVersion)
	id, first := endpoint["id"].(string), endpoint["secret"].(string)
	if all := data(f.do("GET", "/v1/webhook_endpoints")); len(all) != 1 || all[0]["secret"] != nil {
		t.Fatalf("the list shows the secret: %v", all)
	}
	customer := f.customer()
	if accepted, refused := f.Deliver(t.Context(), Disorder{}); accepted != 1 || refused != 0 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
	signed := func(secret string) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Contains(r.header, "v1="+Signature(secret, f.clock.Now(), r.body))
	}
	if !signed(first) {
		t.Errorf("the signature %s is not of the secret", r.header)
	}

	// During a rotation both secrets sign.
	second, err := f.RollSecret(id, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	f.do("POST", "/v1/invoices", "customer="+customer)
	f.Deliver(t.Context(), Disorder{})
	if !signed(first) || !signed(second) {
		t.Errorf("the signature %s is not of both secrets", r.header)
	}
	f.clock.Advance(time.Hour)
	f.customer()
	f.Deliver(t.Context(), Disorder{})
	if signed(first) || !signed(second) {
		t.Errorf("the signature %s is not of the new secret alone", r.header)
	}
	r.take()

	// Refused deliveries come again after an hour.
	r.status = 500
	f.customer()
	f.Deliver(t.Context(), Disorder{})
	r.status = 200
	if accepted, _ := f.Deliver(t.Context(), Disorder{}); accepted != 0 {
		t.Error("a refused delivery came again at once")
	}
	f.clock.Advance(firstWait)
	if accepted, _ := f.Deliver(t.Context(), Disorder{}); accepted != 1 {
		t.Error("a refused delivery did not come again")
	}
	r.take()

	// Disorder repeats and shuffles.
	for range 5 {
		f.do("POST", "/v1/invoices", "customer="+f.customer())
	}
	accepted, _ := f.Deliver(t.Context(), Disorder{Repeat: 1, Shuffle: rand.New(rand.NewPCG(1, 2))})
	types := r.take()
	if accepted != 20 || slices.Equal(types[:2], []string{"customer.created", "invoice.created"}) && slices.IsSorted(types) {
		t.Errorf("%d deliveries: %v", accepted, types)
	}

	// A removed endpoint gets nothing.
	f.customer()
	f.do("DELETE", "/v1/webhook_endpoints/"+id)
	if accepted, refused := f.Deliver(t.Context(), Disorder{}); accepted+refused != 0 {
		t.Errorf("a removed endpoint got %d", accepted+refused)
	}
}

func TestADeliveryIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	web := httptest.NewServer(&receiver{status: 500})
	t.Cleanup(web.Close)
	f.do("POST", "/v1/webhook_endpoints", "url="+web.URL, "enabled_events[0]=*")
	f.customer()
	for i := range maxAttempts + 1 {
		_, refused := f.Deliver(t.Context(), Disorder{})
		if want := i < maxAttempts; (refused == 1) != want {
			t.Errorf("attempt %d: %d refused", i, refused)
		}
		f.clock.Advance(firstWait << maxAttempts)
	}
}
