package token

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
)

var noon = time.Date(2026, 5, 17, 12, 0, 0, 0, time.UTC)

var gateway = Claims{Subject: "gw_1", Role: "gateway", Audience: Hosts}

// seeded returns a key that is the same in every run.
func seeded(t testing.TB, b byte) Key {
	t.Helper()
	k, err := KeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signed(t testing.TB, k Key, c Claims, now time.Time) string {
	t.Helper()
	text, err := Sign(k, c, now)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// forged returns a token with any header and claims.
func forged(t testing.TB, method jwt.SigningMethod, key any, kid any, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != nil {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// good returns claims that Verify accepts at noon.
func good(change func(jwt.MapClaims)) jwt.MapClaims {
	c := jwt.MapClaims{
		"iss": Issuer, "aud": Hosts, "sub": "gw_1", "role": "gateway",
		"iat": noon.Unix(), "exp": noon.Add(Lifetime).Unix(),
	}
	if change != nil {
		change(c)
	}
	return c
}

func TestVerifyTellsWhatWasSigned(t *testing.T) {
	t.Parallel()
	k := seeded(t, 1)
	got, err := NewSet(k.Public()).Verify(signed(t, k, gateway, noon), Hosts, noon)
	if err != nil {
		t.Fatal(err)
	}
	want := gateway
	want.Expires = noon.Add(Lifetime)
	if !got.Expires.Equal(want.Expires) {
		t.Errorf("it expires at %v, want %v", got.Expires, want.Expires)
	}
	got.Expires = want.Expires
	if got != want {
		t.Errorf("claims are %+v, want %+v", got, want)
	}
}

// TestVerifyFailsClosed checks that every text but a valid token of ours, for this audience and now, is
// refused.
func TestVerifyFailsClosed(t *testing.T) {
	t.Parallel()
	k, other := seeded(t, 1), seeded(t, 2)
	set := NewSet(k.Public())
	mine := func(change func(jwt.MapClaims)) string {
		return forged(t, jwt.SigningMethodEdDSA, k.Private, k.ID, good(change))
	}
	if _, err := set.Verify(mine(nil), Hosts, noon); err != nil {
		t.Fatalf("the control: %v", err)
	}
	whole := signed(t, k, gateway, noon)
	parts := strings.Split(whole, ".")
	tampered := strings.Replace(string(decoded(t, parts[1])), "gw_1", "gw_2", 1)
	for _, c := range []struct{ name, text string }{
		{"nothing", ""},
		{"no token", "cv_gw_x_y"},
		{"alg none", forged(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, k.ID, good(nil))},
		{"HS256 with the public key as secret", forged(t, jwt.SigningMethodHS256, []byte(k.Public()), k.ID, good(nil))},
		{"HS256 with the key set as secret", forged(t, jwt.SigningMethodHS256, set.JWKS(), k.ID, good(nil))},
		{"an unknown key", signed(t, other, gateway, noon)},
		{"another key under a known id", forged(t, jwt.SigningMethodEdDSA, other.Private, k.ID, good(nil))},
		{"no kid", forged(t, jwt.SigningMethodEdDSA, k.Private, nil, good(nil))},
		{"a kid that is no text", forged(t, jwt.SigningMethodEdDSA, k.Private, 7, good(nil))},
		{"another audience", signed(t, k, Claims{Subject: "gw_1", Role: "gateway", Audience: ControlPlane}, noon)},
		{"no audience", mine(func(c jwt.MapClaims) { delete(c, "aud") })},
		{"an empty audience", mine(func(c jwt.MapClaims) { c["aud"] = "" })},
		{"another issuer", mine(func(c jwt.MapClaims) { c["iss"] = "corvo" })},
		{"no issuer", mine(func(c jwt.MapClaims) { delete(c, "iss") })},
		{"no expiry", mine(func(c jwt.MapClaims) { delete(c, "exp") })},
		{"an expiry that is no number", mine(func(c jwt.MapClaims) { c["exp"] = "never" })},
		{"made in the future", mine(func(c jwt.MapClaims) { c["iat"] = noon.Add(Leeway + time.Second).Unix() })},
		{"not yet", mine(func(c jwt.MapClaims) { c["nbf"] = noon.Add(Leeway + time.Second).Unix() })},
		{"no subject", mine(func(c jwt.MapClaims) { delete(c, "sub") })},
		{"no role", mine(func(c jwt.MapClaims) { delete(c, "role") })},
		{"another subject", parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(tampered)) + "." + parts[2]},
		{"no signature", parts[0] + "." + parts[1] + "."},
		{"two parts", parts[0] + "." + parts[1]},
		{"a part too many", whole + ".x"},
		{"text after it", whole + "A"},
		{"too long", whole + strings.Repeat("A", MaxTokenBytes)},
	} {
		got, err := set.Verify(c.text, Hosts, noon)
		if api.CodeOf(err) != api.Unauthorized || got != (Claims{}) {
			t.Errorf("%s: %+v, %v; want UNAUTHORIZED and no claims", c.name, got, err)
		}
	}
	for name, audience := range map[string]string{"an empty audience asked for": "", "another one": "host"} {
		if _, err := set.Verify(whole, audience, noon); api.CodeOf(err) != api.Unauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Set{}).Verify(whole, Hosts, noon); api.CodeOf(err) != api.Unauthorized {
		t.Errorf("the zero Set: %v", err)
	}
}

func decoded(t *testing.T, part string) []byte {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestExpiryAtTheBound checks that a token is valid in its last nanosecond and not in the next.
func TestExpiryAtTheBound(t *testing.T) {
	t.Parallel()
	k := seeded(t, 1)
	text := signed(t, k, gateway, noon)
	end := noon.Add(Lifetime + Leeway)
	set := NewSet(k.Public())
	if _, err := set.Verify(text, Hosts, end.Add(-1)); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	_, err := set.Verify(text, Hosts, end)
	if api.CodeOf(err) != api.Unauthorized || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("at its end: %v", err)
	}
	if _, err := set.VerifyOffline(text, Hosts, noon.Add(Lifetime+Outage-time.Second)); err != nil {
		t.Errorf("while the control plane is away: %v", err)
	}
	if _, err := set.VerifyOffline(text, Hosts, noon.Add(Lifetime+Outage)); err == nil {
		t.Errorf("a token is good for ever while the control plane is away")
	}
	if _, err := set.Verify(text, Hosts, noon.Add(-Leeway)); err != nil {
		t.Errorf("on a clock that is %v behind: %v", Leeway, err)
	}
	if _, err := set.Verify(text, Hosts, noon.Add(-Leeway-time.Second)); err == nil {
		t.Error("it is good before it was made")
	}
}

func TestTokenLengthAtTheBound(t *testing.T) {
	t.Parallel()
	k := seeded(t, 1)
	c := gateway
	for len(signed(t, k, c, noon)) < MaxTokenBytes {
		c.Subject += "x"
	}
	set := NewSet(k.Public())
	if text := signed(t, k, c, noon); len(text) > MaxTokenBytes {
		c.Subject = c.Subject[:len(c.Subject)-1]
	}
	if _, err := set.Verify(signed(t, k, c, noon), Hosts, noon); err != nil {
		t.Errorf("a token at the bound: %v", err)
	}
	c.Subject += "xxx"
	if _, err := set.Verify(signed(t, k, c, noon), Hosts, noon); err == nil {
		t.Error("a token beyond the bound is taken")
	}
}

func TestSignRefusesWhatNobodyWouldTake(t *testing.T) {
	t.Parallel()
	k := seeded(t, 1)
	for name, c := range map[string]Claims{
		"no subject":  {Role: "host", Audience: Hosts},
		"no role":     {Subject: "h", Audience: Hosts},
		"no audience": {Subject: "h", Role: "host"},
	} {
		if text, err := Sign(k, c, noon); err == nil {
			t.Errorf("%s: signed %s", name, text)
		}
	}
	if _, err := Sign(Key{}, gateway, noon); err == nil {
		t.Error("the zero Key signs")
	}
}

// TestRotation checks that tokens of both keys are valid while both are published, and that removing the
// old key ends its tokens.
func TestRotation(t *testing.T) {
	t.Parallel()
	before, after := seeded(t, 1), seeded(t, 2)
	old, young := signed(t, before, gateway, noon), signed(t, after, gateway, noon)
	for _, c := range []struct {
		name       string
		set        Set
		old, young bool
	}{
		{"before", NewSet(before.Public()), true, false},
		{"while", NewSet(before.Public(), after.Public()), true, true},
		{"after", NewSet(after.Public()), false, true},
	} {
		for text, want := range map[string]bool{old: c.old, young: c.young} {
			_, err := c.set.Verify(text, Hosts, noon)
			if (err == nil) != want {
				t.Errorf("%s: %v", c.name, err)
			}
			// A follower must know that it should fetch the keys again.
			if !want && !errors.Is(err, ErrUnknownKey) {
				t.Errorf("%s: %v does not say that the key is unknown", c.name, err)
			}
		}
	}
}

// TestDomains checks that a signature of a token is never valid for a document, nor the reverse.
func TestDomains(t *testing.T) {
	t.Parallel()
	k := seeded(t, 1)
	set := NewSet(k.Public())
	text := signed(t, k, gateway, noon)
	dot := strings.LastIndexByte(text, '.')
	if err := set.VerifyDocument([]byte(text[:dot]), k.ID+text[dot:]); err == nil {
		t.Error("a token is a document")
	}
	// An attacker gets a document signed that is the signed part of a token.
	signature := SignDocument(k, []byte(text[:dot]))
	_, raw, _ := strings.Cut(signature, ".")
	if _, err := set.Verify(text[:dot]+"."+raw, Hosts, noon); err == nil {
		t.Error("a document's signature makes a token")
	}
}

func TestVerifyDocument(t *testing.T) {
	t.Parallel()
	k, other := seeded(t, 1), seeded(t, 2)
	set := NewSet(k.Public())
	doc := []byte(`{"number":7}`)
	signature := SignDocument(k, doc)
	if err := set.VerifyDocument(doc, signature); err != nil {
		t.Fatal(err)
	}
	if Signer(signature) != k.ID {
		t.Errorf("the signer is %q", Signer(signature))
	}
	_, raw, _ := strings.Cut(signature, ".")
	for _, c := range []struct{ name, doc, signature string }{
		{"another document", `{"number":8}`, signature},
		{"no document", "", signature},
		{"no signature", string(doc), ""},
		{"only a key", string(doc), k.ID},
		{"only a signature", string(doc), raw},
		{"a signature cut short", string(doc), signature[:len(signature)-1]},
		{"text after it", string(doc), signature + "A"},
		{"bits after it", string(doc), signature[:len(signature)-1] + "_"},
		{"line breaks in it", string(doc), k.ID + ".\n" + raw[1:]},
		{"another's signature under a known id", string(doc), k.ID + SignDocument(other, doc)[len(other.ID):]},
	} {
		if err := set.VerifyDocument([]byte(c.doc), c.signature); api.CodeOf(err) != api.Unauthorized || errors.Is(err, ErrUnknownKey) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	err := set.VerifyDocument(doc, SignDocument(other, doc))
	if api.CodeOf(err) != api.Unauthorized || !errors.Is(err, ErrUnknownKey) {
		t.Errorf("an unknown key: %v", err)
	}
	if err := set.Only(k.ID).VerifyDocument(doc, signature); err != nil {
		t.Errorf("with only its key: %v", err)
	}
	if err := set.Only(other.ID).VerifyDocument(doc, signature); err == nil {
		t.Error("with another key only")
	}
}

// TestThumbprint checks the example of RFC 8037, appendix A.3.
func TestThumbprint(t *testing.T) {
	t.Parallel()
	k, err := KeyFromSeed(decoded(t, "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
	if err != nil {
		t.Fatal(err)
	}
	if k.ID != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("the id is %s", k.ID)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	k, err := NewKey(bytes.NewReader(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil || k.ID != seeded(t, 1).ID || !bytes.Equal(k.Seed(), seeded(t, 1).Seed()) {
		t.Errorf("NewKey does not make its key of the bits it reads: %v", err)
	}
	if _, err := NewKey(bytes.NewReader(nil)); err == nil {
		t.Error("a key without randomness")
	}
	for _, n := range []int{0, ed25519.SeedSize - 1, ed25519.SeedSize + 1} {
		if _, err := KeyFromSeed(make([]byte, n)); err == nil {
			t.Errorf("a seed of %d bytes is taken", n)
		}
	}
}

func TestJWKSRoundTrip(t *testing.T) {
	t.Parallel()
	a, b := seeded(t, 1), seeded(t, 2)
	text := NewSet(a.Public(), b.Public()).JWKS()
	if !bytes.Equal(text, NewSet(b.Public(), a.Public(), b.Public()).JWKS()) {
		t.Error("the same keys in another order make another text")
	}
	set, err := ParseSet(text)
	if err != nil || set.Len() != 2 || !bytes.Equal(set.JWKS(), text) {
		t.Fatalf("%d keys, %v: %s", set.Len(), err, set.JWKS())
	}
	for _, k := range []Key{a, b} {
		if _, err := set.Verify(signed(t, k, gateway, noon), Hosts, noon); err != nil {
			t.Error(err)
		}
	}
	var fields struct{ Keys []map[string]string }
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, k := range fields.Keys {
		if k["kid"] == "" {
			t.Errorf("a key is published without an id: %v", k)
		}
		want := map[string]string{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": k["kid"], "x": k["x"]}
		if diff := cmp.Diff(want, k); diff != "" {
			t.Errorf("a published key (-want +got):\n%s", diff)
		}
	}
	if text := (Set{}).JWKS(); string(text) != `{"keys":[]}` {
		t.Errorf("no keys are %s", text)
	}
}

func TestParseSet(t *testing.T) {
	t.Parallel()
	a := seeded(t, 1)
	x := base64.RawURLEncoding.EncodeToString(a.Public())
	for _, c := range []struct {
		text, fault string
		keys        int
	}{
		{`{"keys":[]}`, "", 0},
		{`{"keys":[{"kty":"RSA","n":"x","e":"AQAB","kid":"r"},{"kty":"OKP","crv":"X25519","x":"` + x + `"}]}`, "", 0},
		{`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"` + a.ID + `","new":"field"}]}`, "", 1},
		{`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"me"}]}`, "its thumbprint is", 0},
		{`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}]}`, "its thumbprint is", 0},
		{`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x[2:] + `","kid":"` + a.ID + `"}]}`, "is damaged", 0},
		{`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"?","kid":"` + a.ID + `"}]}`, "is damaged", 0},
		{`{}`, "no list of keys", 0},
		{`null`, "no list of keys", 0},
		{``, "no JSON Web Key Set", 0},
		{`{"keys":[`, "no JSON Web Key Set", 0},
	} {
		set, err := ParseSet([]byte(c.text))
		if (c.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fault) || set.Len() != c.keys {
			t.Errorf("%s: %d keys, %v; want %d and %q", c.text, set.Len(), err, c.keys, c.fault)
		}
	}
}

func TestSetAtTheBound(t *testing.T) {
	t.Parallel()
	var keys []ed25519.PublicKey
	for i := range MaxSetKeys + 1 {
		keys = append(keys, seeded(t, byte(i)).Public())
	}
	if _, err := ParseSet(NewSet(keys[:MaxSetKeys]...).JWKS()); err != nil {
		t.Error(err)
	}
	if _, err := ParseSet(NewSet(keys...).JWKS()); err == nil {
		t.Errorf("a set of %d keys is taken", len(keys))
	}
}

func FuzzVerify(f *testing.F) {
	k := seeded(f, 1)
	set := NewSet(k.Public())
	text := signed(f, k, gateway, noon)
	f.Add(text)
	f.Add(forged(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, k.ID, good(nil)))
	f.Add(forged(f, jwt.SigningMethodHS256, []byte(k.Public()), k.ID, good(nil)))
	f.Add("..")
	f.Add(SignDocument(k, []byte(text)))
	f.Fuzz(func(t *testing.T, fuzzed string) {
		c, err := set.Verify(fuzzed, Hosts, noon)
		if err != nil && api.CodeOf(err) != api.Unauthorized {
			t.Fatalf("%v is not UNAUTHORIZED", err)
		}
		// Without the key no signature can be made, so only the text itself is valid, up to line breaks
		// that base64 skips.
		clean := strings.NewReplacer("\n", "", "\r", "").Replace(fuzzed)
		if err == nil && clean != text {
			t.Fatalf("%q is taken as %+v", fuzzed, c)
		}
	})
}

func FuzzParseSet(f *testing.F) {
	f.Add(NewSet(seeded(f, 1).Public(), seeded(f, 2).Public()).JWKS())
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"","kid":""}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := ParseSet(text)
		if err != nil {
			return
		}
		again, err := ParseSet(set.JWKS())
		if err != nil || !bytes.Equal(again.JWKS(), set.JWKS()) {
			t.Fatalf("%s reads as %s: %v", text, set.JWKS(), err)
		}
	})
}
