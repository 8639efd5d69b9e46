// Package certificate is the fleet's certificate authority and its members' side of mutual TLS. It makes
// roots, issues a certificate for a member's public key, keeps a member's key, certificate and bundle in one
// file, decides when the member must renew the certificate, and builds the TLS configurations of both sides.
// It does not decide which members get a certificate: the control plane does when they join. It does not know
// the rights of a member, because the documents have them. It may import api, api/text and durable.
//
// The control plane makes its root and issues certificates with it, also to each of its own processes. Hosts and gateways
// ask for a certificate when they join. Package fleet says which members speak to which.
//
// All keys are Ed25519, because Corvo signs documents, tokens and members' certificates with Ed25519 already.
// Such a key is stored as its seed of 32 bytes, its signatures need no randomness, and only our own programs
// verify them. ECDSA P-256 was rejected, because only browsers would need it, and they reach the public side
// of a gateway, which uses the operator's certificate.
package certificate
