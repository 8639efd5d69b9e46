package op_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

const kindRole = state.ResourceKind_RESOURCE_KIND_ROLE

// Commands of stories that change keys and roles.
func init() {
	builders["set-key"] = (*story).setKey
	builders["rotate-key"] = func(s *story, items []item) op.Op {
		i := items[0]
		hash := sha256.Sum256([]byte(i.text("secret", "s")))
		return &op.RotateKey{
			Meta: s.meta(i), Id: repeated(i.words[0]), Hash: hash[:i.number(s.t, "hash", sha256.Size)],
			OverlapNs: i.millis(s.t, "overlap", 0) * int64(time.Millisecond), JudgedVersion: i.number(s.t, "judged", 0),
			CallerVersion: i.number(s.t, "caller", 0),
		}
	}
	builders["revoke-sparing"] = func(s *story, items []item) op.Op {
		return &op.RevokeKey{Meta: s.meta(items[0]), Id: items[0].words[0], SpareLast: true}
	}
	builders["role"] = (*story).role
	builders["drop-role"] = func(s *story, items []item) op.Op {
		return &op.DeleteResource{Meta: s.meta(items[0]), Kind: kindRole, Name: items[0].words[0], Shards: 1}
	}
	hash := make([]byte, sha256.Size)
	moreValid = append(moreValid,
		func(*world) op.Op { return &op.SetKey{Id: "k", Roles: []string{"admin"}} },
		func(*world) op.Op { return &op.RotateKey{Id: "k", Hash: hash} },
	)
	bounds = append(bounds,
		bound{"set-key", "id", job.MaxKeyID, api.ValidationError, func(o op.Op, n int) { o.(*op.SetKey).Id = long(n) }},
		bound{"set-key", "name", job.MaxKeyName, api.ValidationError, func(o op.Op, n int) { o.(*op.SetKey).Name = long(n) }},
		bound{"set-key", "roles", job.MaxKeyRoles, api.ValidationError, func(o op.Op, n int) {
			o.(*op.SetKey).Roles = strings.Split(strings.Repeat("r,", n-1)+"r", ",")
		}},
		bound{"set-key", "roles[0]", job.MaxKeyRole, api.ValidationError, func(o op.Op, n int) { o.(*op.SetKey).Roles[0] = long(n) }},
		bound{"set-key", "queue_scope", job.MaxKeyScope, api.ValidationError, func(o op.Op, n int) {
			o.(*op.SetKey).QueueScope = strings.Split(strings.Repeat("r,", n-1)+"r", ",")
		}},
		bound{"set-key", "queue_scope[0]", job.MaxKeyGlob, api.ValidationError, func(o op.Op, n int) { o.(*op.SetKey).QueueScope = []string{long(n)} }},
		bound{"rotate-key", "id", job.MaxKeyID, api.ValidationError, func(o op.Op, n int) { o.(*op.RotateKey).Id = long(n) }},
		bound{"rotate-key", "hash", sha256.Size, api.ValidationError, func(o op.Op, n int) { o.(*op.RotateKey).Hash = make([]byte, n) }},
		bound{"rotate-key", "overlap", int(job.MaxKeyOverlap), api.ValidationError, func(o op.Op, n int) { o.(*op.RotateKey).OverlapNs = int64(n) }},
	)
}

// setKey reads an id, name=, roles=, scope=, disabled, expires= (from now), version=,
// judged= and caller=.
func (s *story) setKey(items []item) op.Op {
	i := items[0]
	o := &op.SetKey{
		Meta: s.meta(i), Id: repeated(i.words[0]), Name: repeated(i.text("name", "")),
		Roles:      strings.Split(repeated(i.text("roles", "admin")), ","),
		QueueScope: strings.FieldsFunc(repeated(i.text("scope", "")), func(r rune) bool { return r == ',' }),
		Enabled:    !i.has("disabled"), IfVersion: i.number(s.t, "version", 0), JudgedVersion: i.number(s.t, "judged", 0),
		CallerVersion: i.number(s.t, "caller", 0),
	}
	if i.says("expires") {
		o.ExpiresNs = s.clockNs + i.millis(s.t, "expires", 0)*int64(time.Millisecond)
	}
	return o
}

// role reads a name, the permissions it grants, create and version=.
func (s *story) role(items []item) op.Op {
	i := items[0]
	id := s.newID("")
	o := &op.PutResource{Meta: s.meta(i), Create: i.has("create"), IfVersion: i.number(s.t, "version", 0), Resource: &state.Resource{
		Kind: kindRole, Name: repeated(i.words[0]), Shards: 1, Role: &state.Role{Permissions: strings.FieldsFunc(i.text("grants", ""), func(r rune) bool { return r == ',' })},
	}}
	o.Meta.Ids = [][]byte{id[:]}
	return o
}

// keyTerms prints the changed settings of a key for the story's list.
func (s *story) keyTerms(k *state.Key) (out string) {
	if !k.Enabled {
		out += " disabled"
	}
	if k.ExpiresNs != 0 {
		out += " expires " + s.moment(k.ExpiresNs)
	}
	if k.PreviousUntilNs != 0 {
		out += fmt.Sprintf(" hash before %x... until %s", k.PreviousHash[:4], s.moment(k.PreviousUntilNs))
	}
	if k.Changes != 0 {
		out += fmt.Sprintf(" version %d", op.KeyVersion(k))
	}
	return out
}

// The number of roles is limited, and no role replaces a built-in one.
func TestRoleBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	role := func(name string) *op.PutResource {
		id := w.newID("")
		return &op.PutResource{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Resource: &state.Resource{
			Kind: kindRole, Name: name, Shards: 1, Role: &state.Role{Permissions: []string{string(tenancy.JobRead)}},
		}}
	}
	for i := range job.MaxRoles {
		one[*op.PutResourceResult](w, role(fmt.Sprint("r", i)))
	}
	if refused, ok := w.apply(role("more"))[0].(*api.Error); !ok || refused.Code != api.Conflict {
		t.Errorf("a role too many: %v", refused)
	}
	one[*op.PutResourceResult](w, role("r0")) // it is there
	w.check()
	for name, want := range map[string]bool{
		long(tenancy.MaxRoleName): true, long(tenancy.MaxRoleName + 1): false,
		"a.b_c-D9": true, "a b": false, "a/b": false, "rôle": false,
		"admin": false, "readonly": false, "cloud-operator": false, "Admin": true,
	} {
		if err := role(name).Validate(); (err == nil) != want {
			t.Errorf("a role named %q: %v", name, err)
		}
	}
}
