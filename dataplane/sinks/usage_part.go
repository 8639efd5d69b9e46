package sinks

import (
	"encoding/hex"
	"math"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/state"
)

// usagePart describes the usage rows that one history of a shard has numbered. A shard has one part for each time that its
// group was refounded, and the newest one. The receiver counts the rows of each part from 1, because a history that
// ended without a quorum may have delivered rows that the shard's copy does not have, with numbers that the copy uses for
// other rows.
type usagePart struct {
	source billing.Source
	base   uint64 // number in the store of the last row before the part
	end    uint64 // number in the store of the first row after the part; math.MaxUint64 of the newest part
}

// usageParts returns the parts of a shard's usage, the oldest first.
func usageParts(of billing.Source, head *state.Head) []usagePart {
	all := make([]usagePart, 0, len(head.GetUsageHistories())+1)
	base := uint64(0)
	add := func(incarnation []byte, end uint64) {
		of.Incarnation = hex.EncodeToString(incarnation)
		all = append(all, usagePart{of, base, end})
		base = end - 1
	}
	for _, h := range head.GetUsageHistories() {
		add(h.GetIncarnation(), h.GetNextSeq())
	}
	add(head.GetIncarnation(), math.MaxUint64)
	return all
}
