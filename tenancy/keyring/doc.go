// Package keyring is the format of API keys and their verification, one code
// for the node, the host and the gateway. It stores no keys: it looks them up
// through Source. It reads no clock and no randomness but what it is given, and
// imports api and tenancy.
package keyring
