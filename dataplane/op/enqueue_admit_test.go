package op

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// The proposer refuses an op of a later level. If such an op is in an entry of a lower level, the replica
// stops.
func TestSince(t *testing.T) {
	t.Parallel()
	late := *KindOf(numSetQueue).Row
	late.Since = 3
	for level, refused := range map[uint32]api.Code{1: api.Unsupported, 2: api.Unsupported, 3: "", 4: ""} {
		if err := late.Admit(level); api.CodeOf(err) != refused {
			t.Errorf("admitted at level %d: %v", level, err)
		}
		if err := late.CheckSince(level); (err != nil) != (refused != "") {
			t.Errorf("applied at level %d: %v", level, err)
		} else if err != nil && !strings.Contains(err.Error(), "set-queue needs feature level 3") {
			t.Error(err)
		}
	}
	for _, k := range Kinds() {
		if err := Admit(k.New(), k.Since); err != nil {
			t.Errorf("%s is refused at its own level: %v", k.Name, err)
		}
		if k.Since < 1 || k.Since > FeatureLevel {
			t.Errorf("%s is there since level %d; this binary knows 1 to %d", k.Name, k.Since, FeatureLevel)
		}
	}
}
