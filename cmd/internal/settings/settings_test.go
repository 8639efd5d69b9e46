package settings

import "testing"

func TestIsURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"http://127.0.0.1:8082":            true,
		"https://queue.example.com":        true,
		"https://queue.example.com/corvo/": true,
		"HTTP://h:1":                       true,
		"http://[2001:db8::1]:65535":       true,
		"http://[2001:db8::1]":             true,
		"":                                 false,
		"h:8082":                           false,
		"ftp://h":                          false,
		"http://":                          false,
		"http://:8082":                     false,
		"http://[]:8082":                   false,
		"http://h:0":                       false,
		"http://h:65536":                   false,
		"http://h:99999":                   false,
		"http://h:http":                    false,
		"http://h?q":                       false,
		"http://h#f":                       false,
	} {
		if got := IsURL(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
