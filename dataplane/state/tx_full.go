package state

// MaxEntryDocuments bounds an entry: an entry that has written so many bytes of blobs, iterations and ops for
// other shards is full. A small op may cause much to be written: a thousand jobs that settle together create
// the next steps of a thousand chains, each with the documents that its chain carries. Without a bound such
// an entry would take gigabytes on every replica, and again at each replay. The bound decides how ops behave,
// so it must be the same on every replica.
const MaxEntryDocuments = 64 << 20

// Full reports whether the entry has written as much as it may. An op that ends several jobs calls Full for
// each of them. If the entry is full, a duty leaves the remaining jobs to its next op, and a fetch leaves
// them to the next fetch. Acks, fails and actions on jobs of a batch or chain, and enqueues that drop jobs of
// a full queue, are refused with OVERLOADED. So only the consequences of one job, or the content of the entry
// itself, which the log bounds, can exceed MaxEntryDocuments.
func (tx *Tx) Full() bool { return tx.documents >= MaxEntryDocuments }
