package cell

import (
	"context"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// TestRetentionIsSetByTheLeader checks that the operator's retention is set, and stays when none is given any
// more.
func TestRetentionIsSetByTheLeader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, x := range []struct{ said, kept time.Duration }{
		{0, 0}, {time.Hour, time.Hour}, {time.Hour, time.Hour}, {0, time.Hour}, {2 * time.Hour, 2 * time.Hour},
	} {
		c := openTest(t, Config{Dir: dir, Retention: x.said})
		eventually(t, "retention is as it should be", func() bool {
			r := c.State().Head().GetSettings().GetRetention()
			for _, s := range []job.State{job.Completed, job.Dead, job.Cancelled} {
				if r.Of(s) != x.kept.Milliseconds() {
					return false
				}
			}
			return true
		})
		if err := c.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
