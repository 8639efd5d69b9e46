package fleettest

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/token"
)

// published is the newest document of a subject.
type published struct {
	fleet.Message
	doc fleet.Doc
	to  string // a host that gets the document although it is no member
}

// subject returns what a document is about: its kind and the id of the namespace or organisation.
func subject(d fleet.Doc) string {
	if d.Kind == fleet.KindTokens {
		return d.Kind + " " + d.Org
	}
	return cmp.Or(d.Kind, fleet.KindPlacement) + " " + d.Namespace
}

// Put publishes the documents of a namespace and returns d with the number of its placement. d may have keys and roles beside the fields of a
// placement; tokens are keys that any namespace of the organisation has. Put gives a number to each document that
// differs from the last one, and always to the placement, which comes last. If d has members and no epoch, Put sets the
// epoch. The streams send the documents to gateways and to the hosts of the members.
func (c *ControlPlane) Put(d fleet.Doc) fleet.Doc { return c.PutTo("", d) }

// PutTo publishes documents as Put does, and sends the placement to one more host, which may be no member. So a test
// tells a host to leave.
func (c *ControlPlane) PutTo(host string, d fleet.Doc) fleet.Doc {
	if len(d.Members) > 0 {
		d.Epoch = cmp.Or(d.Epoch, 1)
	}
	placement := d
	placement.Kind, placement.Format, placement.Keys, placement.Roles = fleet.KindPlacement, fleet.DocFormat, nil, nil
	c.change(func() {
		c.whole[d.Namespace] = d
		if d.Desired == fleet.Open {
			c.publish(fleet.Doc{Kind: fleet.KindKeys, Namespace: d.Namespace, Org: d.Org, Generation: d.Generation, Keys: d.Keys, Roles: d.Roles})
		} else {
			delete(c.whole, d.Namespace)
			delete(c.docs, subject(fleet.Doc{Kind: fleet.KindKeys, Namespace: d.Namespace}))
		}
		c.publish(fleet.Doc{Kind: fleet.KindTokens, Org: d.Org, Keys: c.keysOf(d.Org)})
		c.number++
		placement.Number = c.number
		d.Number = c.number
		c.docs[subject(placement)] = published{c.sign(placement), placement, host}
	})
	return d
}

// keysOf returns the keys of all open namespaces of an organisation, each once. A key of a namespace does no harm among
// the tokens, because its text names its kind. The caller holds the lock.
func (c *ControlPlane) keysOf(org string) (all []fleet.Key) {
	for _, ns := range slices.Sorted(maps.Keys(c.whole)) {
		for _, k := range c.whole[ns].Keys {
			if c.whole[ns].Org == org && !slices.ContainsFunc(all, func(o fleet.Key) bool { return o.ID == k.ID }) {
				all = append(all, k)
			}
		}
	}
	return all
}

// publish gives a document of keys or tokens the next number and publishes it, if its keys or roles differ from the last
// ones. Otherwise only its generation changes. The caller holds the lock.
func (c *ControlPlane) publish(d fleet.Doc) {
	was := c.docs[subject(d)].doc
	d.Number, d.Format = was.Number, fleet.DocFormat
	switch same := reflect.DeepEqual(was.Keys, d.Keys) && reflect.DeepEqual(was.Roles, d.Roles); {
	case same && was.Number == 0:
		return // it shows nothing
	case !same:
		c.number++
		d.Number = c.number
	}
	c.docs[subject(d)] = published{c.sign(d), d, ""}
}

// news returns the documents for a member after a number. Before a placement come its keys and tokens, also if they are
// older. The caller holds the lock.
func (c *ControlPlane) news(after int64, who token.Claims) []fleet.Message {
	var all []published
	for _, p := range c.docs {
		if p.Number > after && c.mine(p, who) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(x, y published) int { return cmp.Compare(x.Number, y.Number) })
	var messages []fleet.Message
	for _, p := range all {
		if p.doc.IsPlacement() && p.doc.Desired == fleet.Open {
			for _, d := range []fleet.Doc{{Kind: fleet.KindTokens, Org: p.doc.Org}, {Kind: fleet.KindKeys, Namespace: p.doc.Namespace}} {
				if older, ok := c.docs[subject(d)]; ok && older.Number <= after {
					messages = append(messages, older.Message)
				}
			}
		}
		messages = append(messages, p.Message)
	}
	return messages
}

// mine reports whether a member gets a document. The caller holds the lock.
func (c *ControlPlane) mine(p published, who token.Claims) bool {
	if p.to == who.Subject || who.Role == string(tenancy.GatewayMember) {
		return true
	}
	for _, placement := range c.docs {
		d := placement.doc
		same := d.Namespace == p.doc.Namespace
		if p.doc.Kind == fleet.KindTokens {
			same = d.Org == p.doc.Org
		}
		here := func(m fleet.GroupMember) bool { return m.Host == who.Subject }
		if same && d.IsPlacement() && slices.ContainsFunc(d.Members, here) {
			return true
		}
	}
	return false
}

// Sign returns a message with a document as it is, without publishing it.
func (c *ControlPlane) Sign(d fleet.Doc) fleet.Message {
	return read(c, func() fleet.Message { return c.sign(d) })
}

func (c *ControlPlane) sign(d fleet.Doc) fleet.Message {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // every Doc can be encoded
	}
	return c.signText(d.Number, text)
}

func (c *ControlPlane) signText(number int64, text []byte) fleet.Message {
	return fleet.Message{Number: number, Doc: text, Signature: token.SignDocument(c.keys[len(c.keys)-1], text)}
}
