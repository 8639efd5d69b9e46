package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/corvo/corvo/api"
)

// withProfiles creates a file of profiles with a text and a mode, and returns the environment that selects
// it.
func withProfiles(t *testing.T, mode os.FileMode, text string) (env string, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "corvo", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // independently of the umask
		t.Fatal(err)
	}
	return "XDG_CONFIG_HOME=" + dir, path
}

// TestProfiles checks that a flag overrides the environment, which overrides the profile, and that a
// profile's secret goes to the profile's own server only.
func TestProfiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := startServer(t, "--data-dir", dir)
	key := adminKey(t, dir)
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, path := withProfiles(t, 0o600, `
profile: good
profiles:
  good: {endpoint: `+node.endpoint+`/, api-key: `+key+`}
  file: {endpoint: `+node.endpoint+`, api-key-file: `+keyFile+`}
  keyless: {endpoint: `+node.endpoint+`}
  gone: {endpoint: "http://127.0.0.1:1", api-key: `+key+`}
  cloud: {endpoint: `+node.endpoint+`, cloud-token: t}
`)
	// The same node under another name would accept the profile's key if it received it.
	other := strings.Replace(node.endpoint, "127.0.0.1", "localhost", 1)
	for _, c := range []struct {
		does string
		env  []string
		args []string
		code int
		says string
	}{
		{"the current profile", nil, nil, 0, "QUEUE"},
		{"a key in a file", nil, []string{"--profile", "file"}, 0, "QUEUE"},
		{"the profile of the environment", []string{"CORVO_PROFILE=gone"}, nil, 1, "127.0.0.1:1/"},
		{"a flag before that", []string{"CORVO_PROFILE=gone"}, []string{"--profile", "good"}, 0, "QUEUE"},
		{"no key", nil, []string{"--profile", "keyless"}, 1, "UNAUTHORIZED"},
		{"a key of the environment", []string{"CORVO_API_KEY=" + key}, []string{"--profile", "keyless"}, 0, "QUEUE"},
		{"a wrong key of the environment before the profile's", []string{"CORVO_API_KEY=wrong"}, nil, 1, "UNAUTHORIZED"},
		{"a file before the environment", []string{"CORVO_API_KEY=wrong"}, []string{"--api-key-file", keyFile}, 0, "QUEUE"},
		{"a key in an argument", []string{"CORVO_API_KEY=wrong"}, []string{"--api-key", key}, 0, "QUEUE"},
		{"another server does not get the profile's key", []string{"CORVO_ENDPOINT=" + other}, nil, 1, "UNAUTHORIZED"},
		{"nor by a flag", nil, []string{"--endpoint", other}, 1, "UNAUTHORIZED"},
		{"and says why", []string{"CORVO_ENDPOINT=" + other}, nil, 1, "the secrets of profile good were not sent, because they are for " + node.endpoint},
		{"not of a profile without", []string{"CORVO_ENDPOINT=" + other, "CORVO_PROFILE=keyless"}, nil, 1, "X-API-Key: KEY\n"},
		{"nor where a key was shown", []string{"CORVO_ENDPOINT=" + other, "CORVO_API_KEY=wrong"}, nil, 1, "copied to its end\n"},
		{"in the cloud neither", []string{"CORVO_ENDPOINT=" + other, "CORVO_PROFILE=cloud"}, []string{"--namespace", "n"}, 2, "the secrets of profile cloud were not sent"},
		{"its own server in capitals", []string{"CORVO_ENDPOINT=" + strings.Replace(node.endpoint, "http:", "HTTP:", 1)}, nil, 0, "QUEUE"},
		{"its own server by a variable", []string{"CORVO_ENDPOINT=" + node.endpoint}, nil, 0, "QUEUE"},
		{"two servers", []string{"CORVO_ENDPOINT=" + other}, []string{"--profile", "good"}, 2, "unset the variable"},
		{"no such profile", nil, []string{"--profile", "lost"}, 2, "corvo profiles"},
		{"a namespace without a token", nil, []string{"--namespace", "orders"}, 2, "corvo login"},
		{"a token without a namespace", []string{"CORVO_CLOUD_TOKEN=t"}, []string{"--profile", "keyless"}, 2, "--namespace"},
	} {
		a := corvo(t, append([]string{config, "CORVO_ENDPOINT=", "CORVO_API_KEY="}, c.env...), append([]string{"queues"}, c.args...)...)
		if a.code != c.code || !strings.Contains(a.stdout+a.stderr, c.says) {
			t.Errorf("%s: %d, want %d and %q: %s%s", c.does, a.code, c.code, c.says, a.stdout, a.stderr)
		}
		if strings.Contains(a.stdout+a.stderr, key) {
			t.Errorf("%s: the key is printed", c.does)
		}
	}

	// A secret kept from stdin is readable by its owner only, and is not shown.
	a := corvoFed(t, strings.NewReader(key), []string{config}, "profiles", "set", "kept", "--endpoint", node.endpoint, "--api-key-file", "-")
	if info, err := os.Stat(path); a.code != 0 || err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%+v, %v, %v", a, info, err)
	}
	if a := corvo(t, []string{config}, "profiles"); strings.Contains(a.stdout, key) || !strings.Contains(a.stdout, "kept") {
		t.Error(a.stdout)
	}
	if a := corvo(t, []string{config, "CORVO_ENDPOINT=", "CORVO_API_KEY="}, "queues", "--profile", "kept"); a.code != 0 {
		t.Error(a.stderr)
	}
}

// TestWhoSpeaks checks which of an API key and a cloud login a command uses: the one named by a flag, else by
// a variable, else by the profile. The command refuses two of the same source if the choice is unclear.
func TestWhoSpeaks(t *testing.T) {
	t.Parallel()
	var said atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said.Store(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + "@" + r.Header.Get(api.NamespaceHeader))
		w.Write([]byte("[]"))
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for _, name := range []string{"key", "token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"-of-file"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keyFile, tokenFile := filepath.Join(dir, "key"), filepath.Join(dir, "token")
	config, _ := withProfiles(t, 0o600, `
profiles:
  login: {endpoint: `+server.URL+`, cloud-token: token-kept, namespace: kept}
  key: {endpoint: `+server.URL+`, api-key: key-kept}
  both: {endpoint: `+server.URL+`, api-key: key-kept, cloud-token: token-kept, namespace: kept}
`)
	const key, token, namespace = "CORVO_API_KEY=key-set", "CORVO_CLOUD_TOKEN=token-set", "CORVO_NAMESPACE=set"
	for _, c := range []struct {
		profile   string
		env, args []string
		want      string // the credential used, or the refusal
	}{
		{"login", nil, nil, "token-kept@kept"},
		{"both", nil, nil, "token-kept@kept"},
		{"login", nil, []string{"--api-key", "cv_garbage"}, "cv_garbage@"},
		{"login", nil, []string{"--api-key-file", keyFile}, "key-of-file@"},
		{"login", []string{key}, nil, "key-set@"},
		{"both", []string{key}, nil, "key-set@"},
		{"login", []string{key, token}, nil, "key-set@"},
		{"login", []string{token, namespace}, []string{"--api-key-file", keyFile}, "key-of-file@"},
		{"login", nil, []string{"--namespace", "other"}, "token-kept@other"},
		{"login", []string{key}, []string{"--namespace", "other"}, "token-kept@other"},
		{"login", []string{namespace}, nil, "token-kept@set"},
		{"both", []string{key}, []string{"--cloud-token-file", tokenFile}, "token-of-file@kept"},
		{"key", []string{key, namespace}, []string{"--cloud-token-file", tokenFile}, "token-of-file@set"},
		{"key", []string{token, namespace}, nil, "token-set@set"},
		{"key", nil, []string{"--cloud-token-file", tokenFile}, "corvo cloud namespaces lists them"},
		{"key", nil, []string{"--namespace", "other"}, "needs a cloud token"},
		{"login", []string{key, namespace}, nil, "unset CORVO_API_KEY or CORVO_NAMESPACE"},
		{"key", nil, []string{"--api-key", "k", "--namespace", "other"}, "leave out --api-key"},
		{"key", nil, []string{"--api-key-file", keyFile, "--cloud-token-file", tokenFile}, "leave out --api-key"},
	} {
		said.Store("")
		env := append([]string{config, "CORVO_ENDPOINT=", "CORVO_API_KEY=", "CORVO_CLOUD_TOKEN=", "CORVO_NAMESPACE="}, c.env...)
		a := corvo(t, env, append([]string{"queues", "--profile", c.profile}, c.args...)...)
		if strings.Contains(c.want, "@") {
			if a.code != 0 || said.Load() != c.want {
				t.Errorf("%+v: %d, %v spoke: %s", c, a.code, said.Load(), a.stderr)
			}
		} else if a.code != exitMisuse || said.Load() != "" || !strings.Contains(a.stderr, c.want) {
			t.Errorf("%+v: %d, %v spoke: %s", c, a.code, said.Load(), a.stderr)
		}
	}
}

// TestASecretIsReadOnce checks that a command reads a secret once, because a second read of a terminal or
// pipe would wait for it, and an ended pipe has none.
func TestASecretIsReadOnce(t *testing.T) {
	t.Parallel()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		w.Write([]byte(`{"error":"no such key","code":"UNAUTHORIZED"}`))
	}))
	t.Cleanup(refuses.Close)
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`{}`))
	}))
	t.Cleanup(answers.Close)
	config, _ := withProfiles(t, 0o600, "{}")
	env := []string{config, "CORVO_ENDPOINT=", "CORVO_API_KEY=", "CORVO_CLOUD_TOKEN=", "CORVO_NAMESPACE="}

	a := corvoFed(t, strings.NewReader("token"), env, "cloud", "keys", "--endpoint", answers.URL, "--namespace", "orders", "--cloud-token-file", "-")
	if a.code != 0 {
		t.Errorf("%+v", a)
	}

	pipe := filepath.Join(t.TempDir(), "key")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("key"), 0o600) }() // waits for its reader; the next one waits for another writer
	a = corvo(t, env, "queues", "--endpoint", refuses.URL, "--api-key-file", pipe)
	if err := <-written; err != nil || a.code != exitFailed || !strings.Contains(a.stderr, "no such key") {
		t.Errorf("%v, %+v", err, a)
	}
}

// TestProfilesThatAreRefused checks that commands refuse a file of secrets that others may read, with advice,
// and a file with unknown words.
func TestProfilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode       os.FileMode
		text, says string
	}{
		{0o640, "profiles: {}", "chmod 600"},
		{0o604, "profiles: {}", "chmod 600"},
		{0o600, "profiles: {a: {api_key: x}}", "api_key not found"},
		{0o600, "profile: lost", `profile "lost" does not exist`},
		{0o600, "[", "config.yaml"},
	} {
		config, _ := withProfiles(t, c.mode, c.text)
		if a := corvo(t, []string{config}, "queues"); a.code != exitMisuse || !strings.Contains(a.stderr, c.says) {
			t.Errorf("%v %q: %d, %s", c.mode, c.text, a.code, a.stderr)
		}
	}
}

// TestNamesOfProfiles checks that a new profile's name suits shells and looks like no flag, while existing
// profiles can be used and deleted by any name.
func TestNamesOfProfiles(t *testing.T) {
	t.Parallel()
	config, path := withProfiles(t, 0o600, "profiles: {an old one: {endpoint: 'http://127.0.0.1:1'}}")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bad name", "", "-x", ".", "a:b", "a/b", "a\tb", "é", strings.Repeat("a", 65)} {
		for _, args := range [][]string{{"profiles", "set", "--", name}, {"login", "--token-file", token, "--endpoint", "http://127.0.0.1:1", "--profile=" + name}} {
			if a := corvo(t, []string{config, "CORVO_ENDPOINT="}, args...); a.code != exitMisuse || !strings.Contains(a.stderr, "profile") {
				t.Errorf("corvo %q: %d, %s", args, a.code, a.stderr)
			}
		}
	}
	for _, args := range [][]string{{"set", "an old one", "--namespace", "n"}, {"use", "an old one"}, {"delete", "an old one"}, {"set", "Prod-2.eu_west"}, {"set", strings.Repeat("a", 64)}} {
		if a := corvo(t, []string{config}, append([]string{"profiles"}, args...)...); a.code != 0 {
			t.Errorf("corvo profiles %q: %d, %s", args, a.code, a.stderr)
		}
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "old") || !strings.Contains(string(text), "Prod-2.eu_west") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestSameEndpoint checks that the case of scheme and host, and trailing slashes, do not distinguish URLs.
func TestSameEndpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"https://Queue.Example.com", "HTTPS://queue.example.COM/", true},
		{"https://queue.example.com/a", "https://queue.example.com/A", false},
		{"http://queue.example.com", "https://queue.example.com", false},
		{"http://localhost:8080", "http://127.0.0.1:8080", false},
	} {
		if got := sameEndpoint(c.a, c.b); got != c.same {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// TestANodesSettingsThatCannotBeAreMisuse checks that invalid settings of a node are misuse, like any other
// flag.
func TestANodesSettingsThatCannotBeAreMisuse(t *testing.T) {
	t.Parallel()
	a := corvo(t, nil, "server", "--data-dir", t.TempDir(), "--dev", "--bind", "0.0.0.0:0")
	if a.code != exitMisuse || !strings.Contains(a.stderr, "--dev serves without keys") {
		t.Errorf("%d, %s", a.code, a.stderr)
	}
}

// TestExitCodes checks the exit code of each kind of error.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		misusef("x"):                            exitMisuse,
		timedOut{api.Errorf(api.NotFound, "x")}: exitTimeout,
		api.Errorf(api.NotFound, "x"):           exitFailed,
		api.Errorf(api.ValidationError, "x"):    exitMisuse,
		api.Errorf(api.Overloaded, "x"):         exitFailed,
		context.DeadlineExceeded:                exitTimeout,
		errors.New("x"):                         exitFailed,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

// TestANodeIsNotTheCloud checks that a cloud command at a node says so, and which credential the node needs.
func TestANodeIsNotTheCloud(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := startServer(t, "--data-dir", dir)
	config, path := withProfiles(t, 0o600, "{}")
	env := []string{config, "CORVO_ENDPOINT=" + node.endpoint, "CORVO_API_KEY=", "CORVO_CLOUD_TOKEN=t"}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"login", "--token-file", token},
		{"cloud", "namespaces"},
		{"cloud", "orgs", "get", "acme"},
		{"cloud", "hosts"},
	} {
		a := corvo(t, env, args...)
		if a.code != 1 || !strings.Contains(a.stderr, "is a node, not the cloud") || !strings.Contains(a.stderr, "--api-key-file or CORVO_API_KEY") {
			t.Errorf("corvo %v: exit %d, %s", args, a.code, a.stderr)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{}" {
		t.Errorf("a login that was refused left %q, %v", text, err)
	}
}

// TestLoginAtANode checks that a login at a node says that the node has no cloud API, and which URL to give.
func TestLoginAtANode(t *testing.T) {
	t.Parallel()
	node := startServer(t, "--data-dir", t.TempDir())
	config := "XDG_CONFIG_HOME=" + t.TempDir()
	a := corvoFed(t, strings.NewReader("cv_org_x"), []string{config, "CORVO_ENDPOINT=", "CORVO_API_KEY="}, "login", "--endpoint", node.endpoint, "--token-file", "-")
	for _, want := range []string{node.endpoint + " has no cloud API", "the URL of the cloud's gateway", "corvo profiles set"} {
		if a.code != 1 || !strings.Contains(a.stderr, want) {
			t.Errorf("%d %s, want %q", a.code, a.stderr, want)
		}
	}
	if n := strings.Count(a.stderr, "gateway or control plane"); n != 1 {
		t.Errorf("the advice is given %d times: %s", n, a.stderr)
	}
}
