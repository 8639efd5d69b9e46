package fleet

import (
	"cmp"
	"encoding/json"
)

// A document of an earlier version has no kind: it was the placement of a namespace, and had the keys of the namespace and
// the tokens of its organisation, which cannot be told apart. Such documents lie signed in the catalogues of hosts and
// gateways, which open by them until the control plane has sent documents of the present kinds. The control plane numbers
// all of these above the earlier ones, so that they replace them.

// IsPlacement reports whether the document is a namespace's placement, possibly with more.
func (d *Doc) IsPlacement() bool { return d.Kind == KindPlacement || d.Kind == "" }

// parts returns the documents of the present kinds that a document stands for, keys before the placement. A key of the
// namespace among the tokens does no harm, because the text of a credential, which its hash covers, names its kind.
func (d *Doc) parts() []Doc {
	if d.Kind != "" {
		return []Doc{*d}
	}
	placement := *d
	placement.Kind, placement.Keys, placement.Roles = KindPlacement, nil, nil
	if d.Desired != Open {
		return []Doc{placement}
	}
	return []Doc{
		{Number: d.Number, Kind: KindTokens, Org: d.Org, Keys: d.Keys},
		{Number: d.Number, Kind: KindKeys, Org: d.Org, Namespace: d.Namespace, Keys: d.Keys, Roles: d.Roles},
		placement,
	}
}

// UnmarshalJSON decodes a document. A document of an earlier version names one member in the fields host, address,
// store and role, and UnmarshalJSON makes the list of members from them. Such documents lie signed in the catalogues of
// hosts and gateways, because the control plane sends a namespace's document again only when the document changes. A
// document of an earlier version without a role let the store of a namespace that was never ready found its groups.
func (d *Doc) UnmarshalJSON(text []byte) error {
	type plain Doc // has no UnmarshalJSON
	if err := json.Unmarshal(text, (*plain)(d)); err != nil || len(d.Members) > 0 {
		return err
	}
	var earlier struct {
		Host    string `json:"host"` // "" = the namespace is not placed yet
		Address string `json:"address"`
		Store   string `json:"store"` // "" = the host had named none
		Role    string `json:"role"`
	}
	if err := json.Unmarshal(text, &earlier); err != nil || earlier.Host == "" {
		return err
	}
	role := Join
	if !d.Ready {
		role = Found
	}
	d.Members = []GroupMember{{Store: earlier.Store, Host: earlier.Host, URL: earlier.Address, Role: cmp.Or(earlier.Role, role)}}
	return nil
}
