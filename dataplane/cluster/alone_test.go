package cluster

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// A process that others cannot reach must not open what they count on.
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
		"a member with others":  {&record{Phase: member, Members: others}, "node-1, node-2"},
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
		err := Alone(dir)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A founder is not alone from the moment it has taken somebody in, and is alone
// again once all others are removed.
func TestAFounderKnowsWhetherItIsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, founder, m := two(t, Config{})
		if err := Alone(founder.cfg.DataDir); err != nil {
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
			if err := Alone(dir); api.CodeOf(err) != api.Conflict {
				t.Errorf("%s: %v", dir, err)
			}
		}
		if err := founder.Remove(t.Context(), m.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(attendIdle + 2*callLimit)
		if err := Alone(founder.cfg.DataDir); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What cannot be read is no permission.
func TestADamagedRecordIsNotAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/"+recordName, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Alone(dir); api.CodeOf(err) != api.Unhealthy {
		t.Error(err)
	}
}
