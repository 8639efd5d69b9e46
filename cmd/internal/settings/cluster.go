package settings

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/corvo/corvo/engine/cluster"
)

// JoinTokenVariable holds the secret that the members of a cluster share. The secret has no flag of its own,
// because everybody on the machine could read it in the process list.
const JoinTokenVariable = "CORVO_JOIN_TOKEN"

// whichToken tells the operator what --join-token-file takes.
const whichToken = "it names a file with the text of a member's " + cluster.TokenFile + ", or one that all members share"

// JoinToken returns the secret in the file, or else the one in the environment; "" = use the one in the data
// directory. Every error is a mistake of the operator.
func JoinToken(file string, env func(string) (string, bool)) (string, error) {
	if file == "" {
		token, _ := env(JoinTokenVariable)
		return token, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--join-token-file: %w; %s", err, whichToken)
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return "", fmt.Errorf("--join-token-file: %s is empty; %s", file, whichToken)
	}
	return string(text), nil
}

// AdvertisedURL returns the URL that a process tells the other members: the parameter given without slashes
// at its end, or, if that is empty, a URL of the scheme with the host and port of the HTTP listener. If the
// listener accepts connections at all addresses, the host comes from raft, the process's address for other
// members.
func AdvertisedURL(given, scheme string, listens net.Addr, raft string) (string, error) {
	if given != "" {
		return strings.TrimRight(given, "/"), nil
	}
	host, port, err := net.SplitHostPort(listens.String())
	if err != nil {
		return "", fmt.Errorf("the address of the HTTP listener: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		if host, _, err = net.SplitHostPort(raft); err != nil {
			return "", fmt.Errorf("the address that other members are told: %w", err)
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// List splits a setting at commas.
func List(text string) []string {
	all := strings.Split(text, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}
