package stripefake

import (
	"slices"
	"strings"
)

// route is a route of the API. A request with another parameter is refused, as Stripe does.
type route struct {
	pattern string
	params  string // names of the parameters, without their brackets
	answer  func(*Server, *call) (object, *failure)
	locks   func(*call) string // resource that one request at a time may use
}

// routes are the routes of the fake.
var routes = []route{
	{pattern: "POST /v1/customers", params: "email name address metadata description", answer: (*Server).createCustomer},
	{pattern: "GET /v1/customers", params: "email limit starting_after", answer: (*Server).listCustomers},
	{pattern: "GET /v1/customers/search", params: "query limit page", answer: (*Server).searchCustomers},
	{pattern: "GET /v1/customers/{id}", answer: (*Server).getCustomer},
	{pattern: "POST /v1/customers/{id}", params: "email name address metadata description invoice_settings", answer: (*Server).updateCustomer},

	{pattern: "POST /v1/invoices", params: "customer auto_advance pending_invoice_items_behavior collection_method currency automatic_tax description metadata", answer: (*Server).createInvoice},
	{pattern: "GET /v1/invoices", params: "customer status limit starting_after", answer: (*Server).listInvoices},
	{pattern: "GET /v1/invoices/{id}", answer: (*Server).getInvoice},
	{pattern: "POST /v1/invoices/{id}/finalize", params: "auto_advance", answer: (*Server).finalizeInvoice},
	{pattern: "POST /v1/invoices/{id}/pay", params: "off_session", answer: (*Server).payInvoice},
	{pattern: "POST /v1/invoices/{id}/void", answer: (*Server).voidInvoice},
	{pattern: "POST /v1/invoiceitems", params: "customer invoice amount currency description metadata period discountable", answer: (*Server).createItem},
	{pattern: "GET /v1/invoiceitems", params: "customer invoice pending limit starting_after", answer: (*Server).listItems},

	{pattern: "POST /v1/billing/meters", params: "display_name event_name event_time_window default_aggregation customer_mapping value_settings", answer: (*Server).createMeter},
	{pattern: "GET /v1/billing/meters", params: "status limit starting_after", answer: (*Server).listMeters},
	{pattern: "POST /v1/billing/meters/{id}", params: "display_name", answer: (*Server).updateMeter},
	{pattern: "POST /v1/billing/meters/{id}/deactivate", answer: (*Server).deactivateMeter},
	{pattern: "POST /v1/billing/meters/{id}/reactivate", answer: (*Server).reactivateMeter},
	{pattern: "GET /v1/billing/meters/{id}/event_summaries", params: "customer start_time end_time value_grouping_window limit starting_after", answer: (*Server).listSummaries},
	{pattern: "POST /v1/billing/meter_events", params: "event_name identifier payload timestamp", answer: (*Server).createMeterEvent, locks: meterOf},

	{pattern: "POST /v1/checkout/sessions", params: "mode customer currency success_url cancel_url metadata client_reference_id", answer: (*Server).createCheckout},
	{pattern: "GET /v1/checkout/sessions/{id}", params: "expand", answer: (*Server).getCheckout},
	{pattern: "GET /v1/setup_intents/{id}", answer: (*Server).getSetupIntent},
	{pattern: "POST /v1/billing_portal/sessions", params: "customer return_url configuration", answer: (*Server).createPortal},
	{pattern: "POST /v1/billing_portal/configurations", params: "business_profile features default_return_url metadata", answer: (*Server).createConfiguration},
	{pattern: "GET /v1/billing_portal/configurations", params: "active limit starting_after", answer: (*Server).listConfigurations},
	{pattern: "POST /v1/billing_portal/configurations/{id}", params: "active business_profile features default_return_url metadata", answer: (*Server).updateConfiguration},

	{pattern: "POST /v1/webhook_endpoints", params: "url enabled_events api_version description metadata", answer: (*Server).createEndpoint},
	{pattern: "GET /v1/webhook_endpoints", params: "limit starting_after", answer: (*Server).listEndpoints},
	{pattern: "POST /v1/webhook_endpoints/{id}", params: "url enabled_events description metadata disabled", answer: (*Server).updateEndpoint},
	{pattern: "DELETE /v1/webhook_endpoints/{id}", answer: (*Server).deleteEndpoint},
}

// checkParams refuses parameters that the route does not have.
func (r route) checkParams(c *call) *failure {
	known := strings.Fields(r.params)
	for param := range c.form {
		name, _, _ := strings.Cut(param, "[")
		if !slices.Contains(known, name) {
			return invalid("parameter_unknown", param, "Received unknown parameter: %s", param)
		}
	}
	return nil
}

// need refuses a request without one of the parameters.
func (c *call) need(params ...string) *failure {
	for _, p := range params {
		if c.form.Get(p) == "" {
			return invalid("parameter_missing", p, "Missing required param: %s.", p)
		}
	}
	return nil
}
