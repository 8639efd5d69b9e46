package state

// MaxEntryDocuments is how many bytes of documents an entry writes before it is full.
// A small op may have much follow from it: a thousand jobs that end together make
// the next steps of as many chains, each with all that its chain carries. Without a
// bound such an entry would take gigabytes on every replica, at each restart again.
// It decides what ops do, so it is the same everywhere.
const MaxEntryDocuments = 64 << 20

// Full says that the entry has written about as much as it may. Ops that end several
// jobs ask between two of them: duties leave the others for their next, and clients
// are told to try again. So it is exceeded by what follows from one job at most, or by
// what was said in the entry itself, which the log bounds.
func (tx *Tx) Full() bool { return tx.documents >= MaxEntryDocuments }
