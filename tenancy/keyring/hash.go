package keyring

import "crypto/sha256"

// Hash returns the SHA-256 of the text of a key. Salt or stretching would add nothing to the text's 256
// random bits.
func Hash(text string) [32]byte {
	var buf [maxLength]byte
	if len(text) > len(buf) {
		return sha256.Sum256([]byte(text))
	}
	return sha256.Sum256(buf[:copy(buf[:], text)])
}
