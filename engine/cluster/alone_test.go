package cluster

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// TestADirectoryThatIsNotAloneIsNotOpenedAlone checks that a process which other members cannot reach does
// not open a directory they rely on.
func TestADirectoryThatIsNotAloneIsNotOpenedAlone(t *testing.T) {
	t.Parallel()
	others := map[string]string{"node-2": "b:1", "node-1": "a:1"}
	for name, c := range map[string]struct {
		record *record
		says   string // "" = it may be opened
	}{
		"nothing there yet":     {nil, ""},
		"a cluster of one":      {&record{Phase: member}, ""},
		"founding one":          {&record{Phase: founding}, ""},
		"a member with others":  {&record{Phase: member, Members: others}, "node-1, node-2: start it as a member again (a bare node with --raft-bind, a process of a control plane with --bootstrap or --join)"},
		"looking for a cluster": {&record{Phase: outside}, "on its way"},
		"joining":               {&record{Phase: joining, Members: others}, "on its way"},
		"waiting to be added":   {&record{Phase: adding, Members: others}, "on its way"},
		"removed by the others": {&record{Phase: removed, Members: others}, "was removed"},
		"of a version unknown":  {&record{Phase: member, Format: recordFormat + 1}, "format"},
	} {
		dir := t.TempDir()
		if c.record != nil {
			c.record.NodeID = "node-0"
			if c.record.Format == 0 {
				c.record.Format = recordFormat
			}
			if err := writeRecord(dir, c.record); err != nil {
				t.Fatal(err)
			}
		}
		err := CheckStandalone(dir)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAFounderKnowsWhetherItIsAlone checks that a founder is no longer alone once it has added another node,
// and alone again once all others are removed.
func TestAFounderKnowsWhetherItIsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, founder, m := two(t, Config{})
		if err := CheckStandalone(founder.cfg.DataDir); err != nil {
			t.Error(err)
		}
		c, err := Open(t.Context(), m.config(Config{Join: []string{founder.Address()}}))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(m.openGroups(c)); err != nil {
			t.Fatal(err)
		}
		awaitMember(m)
		for _, dir := range []string{founder.cfg.DataDir, m.dir} {
			if err := CheckStandalone(dir); api.CodeOf(err) != api.Conflict {
				t.Errorf("%s: %v", dir, err)
			}
		}
		if err := founder.Remove(t.Context(), m.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(contactInterval + 2*callLimit)
		if err := CheckStandalone(founder.cfg.DataDir); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestADamagedRecordIsNotAlone checks that an unreadable record is refused.
func TestADamagedRecordIsNotAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/"+recordName, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckStandalone(dir); api.CodeOf(err) != api.Unhealthy {
		t.Error(err)
	}
}
