package stripe

import (
	"context"
	"regexp"

	stripego "github.com/stripe/stripe-go/v76"
)

// Customer is an organisation as Stripe knows it.
type Customer struct {
	Org     string // id of the organisation
	Name    string // legal name
	Email   string // recipient of invoices and receipts
	Address Address
}

// Address is a billing address, from which Stripe computes taxes.
type Address struct {
	Line1, Line2, City, PostalCode, State string
	Country                               string // two letters of ISO 3166
}

// orgID matches the ids of organisations. A quote in a search would end its text.
var orgID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// EnsureCustomer returns the id of the organisation's customer in Stripe, with the name, email and address given. It creates
// the customer if Stripe has none. It returns ErrMismatch if Stripe has several.
//
// Searches of Stripe lag by a minute or more. That makes no second customer, because the create has an idempotency key, which
// outlives the lag. The create has only the organisation's id, so that it is the same request whatever the profile is.
func (c *Client) EnsureCustomer(ctx context.Context, want Customer) (id string, err error) {
	if !orgID.MatchString(want.Org) {
		return "", invalid("the organisation's id is %q", want.Org)
	}
	if id, err = c.findCustomer(ctx, want.Org); err != nil {
		return "", err
	}
	if id == "" {
		create := &stripego.CustomerParams{Params: params(ctx, "corvo-customer-"+want.Org)}
		create.AddMetadata(metaOrg, want.Org)
		made, err := c.api.Customers.New(create)
		if err != nil {
			return "", translate(err)
		}
		id = made.ID
	}
	update := &stripego.CustomerParams{Params: params(ctx, ""), Name: stripego.String(want.Name), Email: stripego.String(want.Email)}
	if want.Address != (Address{}) {
		a := want.Address
		update.Address = &stripego.AddressParams{
			Line1: stripego.String(a.Line1), Line2: stripego.String(a.Line2), City: stripego.String(a.City),
			PostalCode: stripego.String(a.PostalCode), State: stripego.String(a.State), Country: stripego.String(a.Country),
		}
	}
	_, err = c.api.Customers.Update(id, update)
	return id, translate(err)
}

// findCustomer returns the id of the organisation's customer, or "" if searches find none.
func (c *Client) findCustomer(ctx context.Context, org string) (id string, err error) {
	search := &stripego.CustomerSearchParams{SearchParams: stripego.SearchParams{Context: ctx, Query: "metadata['" + metaOrg + "']:'" + org + "'"}}
	found := c.api.Customers.Search(search)
	for found.Next() {
		if id != "" {
			return "", mismatch("organisation %s has the customers %s and %s: merge them in Stripe and remove %s from the metadata of one", org, id, found.Customer().ID, metaOrg)
		}
		id = found.Customer().ID
	}
	return id, translate(found.Err())
}
