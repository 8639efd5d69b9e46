package settings

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestWhereClientsReachAMember(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ advertise, http, want string }{
		{"https://corvo.example/", "0.0.0.0:8080", "https://corvo.example"},
		{"", "0.0.0.0:8080", "http://node-1:8080"},
		{"", "[::]:8080", "http://node-1:8080"},
		{"", "192.0.2.1:8080", "http://192.0.2.1:8080"},
	} {
		http, err := net.ResolveTCPAddr("tcp", c.http)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := AdvertisedURL(c.advertise, "http", http, "node-1:9400"); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestTheTokenComesFromAFileOrTheEnvironment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	env := func(string) (string, bool) { return "from the environment", true }
	if got, err := JoinToken("", env); err != nil || got != "from the environment" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := JoinToken(path, env); err == nil {
		t.Error("a file that is not there was taken")
	}
	for text, ok := range map[string]bool{"secret\n": true, " \n": false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := JoinToken(path, env); (err == nil) != ok || ok && got != text {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
