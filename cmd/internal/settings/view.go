package settings

import (
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// View holds the settings of a process for a search view that falls behind.
type View struct {
	ViewLagLimit time.Duration `flag:"view-lag-limit" doc:"lag of the search view above which enqueues and fetches are refused with 429 (default: no limit)"`
	MaxFeedBytes int64         `flag:"max-feed-bytes" default:"1073741824" doc:"limit on the bytes of changes a shard keeps for a lagging search view; beyond it the view is rebuilt"`
}

// The bounds of View.
const (
	MinViewLagLimit = time.Second // a view takes less than that to gather changes under load
	MinFeedBytes    = 1 << 20
	MaxFeedBytes    = 64 * job.MaxFeedBytes
)

// Check calls refuse for each setting with whether it is good and the error message if not.
func (v *View) Check(refuse func(good bool, message string, args ...any)) {
	refuse(v.ViewLagLimit == 0 || v.ViewLagLimit >= MinViewLagLimit, "--view-lag-limit is %v; it must be 0, for no limit, or at least %v", v.ViewLagLimit, MinViewLagLimit)
	refuse(v.MaxFeedBytes >= MinFeedBytes && v.MaxFeedBytes <= MaxFeedBytes, "--max-feed-bytes is %d; it must be between %d and %d", v.MaxFeedBytes, MinFeedBytes, int64(MaxFeedBytes))
}
