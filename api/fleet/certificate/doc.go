// Package certificate is the fleet's certificate authority and its members' side of mutual TLS. It makes roots,
// issues a certificate for a member's public key, keeps a member's key, certificate and bundle in one file, renews
// the certificate in time, and builds the TLS configurations of both sides. It does not decide which members
// get a certificate, because the control plane does when they join, and it does not know the rights of a member, because
// they are in the documents. It may import api, api/text and durable.
//
// The control plane uses it for its root and the bundle that it publishes. It will also issue certificates, and package
// fleet, with which hosts and gateways join, will keep them and use them for TLS.
//
// All keys are Ed25519, because the tree already signs documents, tokens and members' certificates with it: a key is
// stored as its seed of 32 bytes, signatures need no randomness, and only programs of this tree verify them. ECDSA P-256
// was rejected, because browsers are the only clients that would need it, and they reach the public side of a gateway,
// which uses the operator's certificate.
package certificate
