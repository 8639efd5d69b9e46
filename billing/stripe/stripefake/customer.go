package stripefake

import (
	"maps"
	"regexp"
)

func (s *Server) createCustomer(c *call) (object, *failure) {
	o := s.create("customer", "cus", object{
		"address": nil, "balance": 0, "currency": "usd", "default_source": nil, "delinquent": false, "description": c.text("description"), "discount": nil,
		"email": nil, "invoice_settings": object{"default_payment_method": nil}, "metadata": object{}, "name": nil, "tax_exempt": "none",
	})
	s.changeCustomer(o, c)
	s.emit("customer.created", o)
	return o, nil
}

// changeCustomer sets the fields that a request has.
func (s *Server) changeCustomer(o object, c *call) {
	for _, name := range []string{"email", "name", "description"} {
		if c.has(name) {
			o[name] = c.text(name)
		}
	}
	if address := c.pairs("address"); len(address) > 0 {
		o["address"] = address
	}
	maps.Copy(o["metadata"].(object), c.pairs("metadata"))
	if method := c.text("invoice_settings[default_payment_method]"); method != nil {
		o["invoice_settings"].(object)["default_payment_method"] = method
	}
	s.seen["search "+o["id"].(string)] = s.cfg.Now().Add(s.cfg.SearchLag)
}

func (s *Server) updateCustomer(c *call) (object, *failure) {
	o, err := s.find("customer", c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if method := c.form.Get("invoice_settings[default_payment_method]"); method != "" {
		if _, err := s.find("payment_method", method); err != nil {
			return nil, err
		}
	}
	s.changeCustomer(o, c)
	s.emit("customer.updated", o)
	return o, nil
}

func (s *Server) getCustomer(c *call) (object, *failure) {
	return s.find("customer", c.PathValue("id"))
}

func (s *Server) listCustomers(c *call) (object, *failure) {
	return s.page(c, "customer", func(o object) bool { return !c.has("email") || o["email"] == c.form.Get("email") })
}

// metadataQuery is the only form of a search that the fake understands.
var metadataQuery = regexp.MustCompile(`^metadata\['([^']+)'\]:'([^']*)'$`)

// searchCustomers finds customers by metadata. It does not find a customer whose last change is more recent than the search
// lag.
func (s *Server) searchCustomers(c *call) (object, *failure) {
	query := metadataQuery.FindStringSubmatch(c.form.Get("query"))
	if query == nil {
		return nil, invalid("", "query", "The fake understands only metadata['key']:'value'.")
	}
	found, err := s.page(c, "customer", func(o object) bool {
		return o["metadata"].(object)[query[1]] == query[2] && !s.cfg.Now().Before(s.seen["search "+o["id"].(string)])
	})
	if err != nil {
		return nil, err
	}
	found["object"], found["next_page"] = "search_result", nil
	return found, nil
}

// DeclinePayments makes payments of a customer fail, or succeed again.
func (s *Server) DeclinePayments(customer string, decline bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declines[customer] = decline
}
