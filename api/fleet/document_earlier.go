package fleet

import (
	"cmp"
	"encoding/json"
)

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
