package stripefake

import (
	"html/template"
	"maps"
	"net/http"
	"strings"
)

func (s *Server) createCheckout(c *call) (object, *failure) {
	if err := c.need("mode", "customer", "currency", "success_url"); err != nil {
		return nil, err
	}
	if c.form.Get("mode") != "setup" {
		return nil, invalid("", "mode", "The fake knows only the mode setup.")
	}
	if _, err := s.find("customer", c.form.Get("customer")); err != nil {
		return nil, err
	}
	o := s.create("checkout.session", "cs_test", object{
		"mode": "setup", "customer": c.form.Get("customer"), "currency": c.form.Get("currency"), "success_url": c.form.Get("success_url"),
		"cancel_url": c.text("cancel_url"), "metadata": c.pairs("metadata"), "client_reference_id": c.text("client_reference_id"), "status": "open",
		"payment_status": "no_payment_required", "expires_at": s.cfg.Now().Unix() + 86400, "payment_method_types": []string{"card"}, "ui_mode": "hosted",
	})
	intent := s.create("setup_intent", "seti", object{
		"customer": o["customer"], "metadata": object{}, "payment_method": nil, "status": "requires_payment_method", "usage": "off_session", "payment_method_types": []string{"card"},
	})
	o["setup_intent"] = intent["id"]
	o["url"] = c.base + "/pages/checkout/" + o["id"].(string)
	return o, nil
}

func (s *Server) getCheckout(c *call) (object, *failure) {
	o, err := s.find("checkout.session", c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	for _, name := range c.list("expand") {
		if name != "setup_intent" {
			return nil, invalid("", "expand", "This property cannot be expanded (%s).", name)
		}
		o = maps.Clone(o)
		o["setup_intent"] = s.of("setup_intent").byID[o["setup_intent"].(string)]
	}
	return o, nil
}

func (s *Server) getSetupIntent(c *call) (object, *failure) {
	return s.find("setup_intent", c.PathValue("id"))
}

func (s *Server) createPortal(c *call) (object, *failure) {
	if err := c.need("customer"); err != nil {
		return nil, err
	}
	if _, err := s.find("customer", c.form.Get("customer")); err != nil {
		return nil, err
	}
	configuration := c.form.Get("configuration")
	if configuration == "" {
		return nil, invalid("", "configuration", "The fake has no default configuration: name one.")
	}
	if _, err := s.find("billing_portal.configuration", configuration); err != nil {
		return nil, err
	}
	o := s.create("billing_portal.session", "bps", object{
		"customer": c.form.Get("customer"), "configuration": configuration, "return_url": c.text("return_url"), "flow": nil, "locale": nil, "on_behalf_of": nil,
	})
	o["url"] = c.base + "/pages/portal/" + o["id"].(string)
	return o, nil
}

func (s *Server) createConfiguration(c *call) (object, *failure) {
	if err := c.need("features[invoice_history][enabled]"); err != nil {
		return nil, err
	}
	o := s.create("billing_portal.configuration", "bpc", object{
		"active": true, "default_return_url": nil, "is_default": false, "business_profile": object{"headline": nil}, "features": object{}, "metadata": object{},
		"updated": s.cfg.Now().Unix(),
	})
	s.changeConfiguration(o, c)
	return o, nil
}

func (s *Server) changeConfiguration(o object, c *call) {
	if c.has("default_return_url") {
		o["default_return_url"] = c.text("default_return_url")
	}
	if c.has("active") {
		o["active"] = c.form.Get("active") == "true"
	}
	if c.has("business_profile[headline]") {
		o["business_profile"].(object)["headline"] = c.text("business_profile[headline]")
	}
	for _, feature := range []string{"customer_update", "invoice_history", "payment_method_update", "subscription_cancel"} {
		if c.has("features[" + feature + "][enabled]") {
			o["features"].(object)[feature] = object{"enabled": c.form.Get("features["+feature+"][enabled]") == "true"}
		}
	}
	maps.Copy(o["metadata"].(object), c.pairs("metadata"))
	o["updated"] = s.cfg.Now().Unix()
}

func (s *Server) updateConfiguration(c *call) (object, *failure) {
	o, err := s.find("billing_portal.configuration", c.PathValue("id"))
	if err == nil {
		s.changeConfiguration(o, c)
	}
	return o, err
}

func (s *Server) listConfigurations(c *call) (object, *failure) {
	return s.page(c, "billing_portal.configuration", func(o object) bool { return !c.has("active") || o["active"] == (c.form.Get("active") == "true") })
}

// page is the HTML of the fake's pages.
var page = template.Must(template.New("page").Parse(`<!doctype html><title>Stripe fake</title>
<h1>{{.Title}}</h1>
{{if .Pay}}<form method="post"><button>Save the card</button></form>{{end}}
{{if .Back}}<a href="{{.Back}}">Back</a>{{end}}
`))

// show writes a page. The title and the link come from requests to the fake, and the template escapes them.
func show(w http.ResponseWriter, title string, pay bool, back any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, map[string]any{"Title": title, "Pay": pay, "Back": back}) // the browser has gone
}

func (s *Server) checkoutPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	o := s.of("checkout.session").byID[r.PathValue("id")]
	if o == nil {
		s.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	open, back := o["status"] == "open", o["cancel_url"]
	s.mu.Unlock()
	show(w, "Checkout", open, back)
}

// completeCheckout saves a card, as the customer does on the page of Stripe, and redirects to the success URL.
func (s *Server) completeCheckout(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of("checkout.session").byID[r.PathValue("id")]
	if o == nil {
		http.NotFound(w, r)
		return
	}
	if o["status"] == "open" {
		method := s.create("payment_method", "pm", object{"type": "card", "customer": o["customer"], "metadata": object{}})
		intent := s.of("setup_intent").byID[o["setup_intent"].(string)]
		intent["payment_method"], intent["status"] = method["id"], "succeeded"
		o["status"] = "complete"
		s.emit("payment_method.attached", method)
		s.emit("setup_intent.succeeded", intent)
		s.emit("checkout.session.completed", o)
	}
	to := strings.ReplaceAll(o["success_url"].(string), "{CHECKOUT_SESSION_ID}", o["id"].(string))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (s *Server) portalPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	o := s.of("billing_portal.session").byID[r.PathValue("id")]
	if o == nil {
		s.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	back := o["return_url"]
	s.mu.Unlock()
	show(w, "Billing portal", false, back)
}
