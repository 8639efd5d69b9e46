// Package keyring defines the format of API keys and verifies them, for the node, the host and the
// gateway alike. It stores no keys: a Source looks them up. Clock and randomness are arguments. It
// imports api and tenancy.
package keyring
