package server

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/store"
)

// Bounds of the number of items on a page.
const (
	DefaultPage = 100
	MaxPage     = store.MaxPage
)

// paging lists the query parameters of a list.
var paging = []serve.Param{
	{Name: "limit", Type: "integer", Doc: "items on a page, from 1 to 1000; default 100"},
	{Name: "cursor", Doc: "cursor of the next page, from the answer before"},
}

// auditPaging lists the query parameters of a check of the audit log.
var auditPaging = []serve.Param{
	{Name: "limit", Type: "integer", Doc: "rows to check, from 1 to 1000; default 100"},
	{Name: "cursor", Doc: "cursor of the next rows, from the answer before"},
}

// These types name the pages in the OpenAPI document, because api.Page is generic and a schema needs a name.
type (
	orgPage        api.Page[api.Org]
	namespacePage  api.Page[api.Namespace]
	keyPage        api.Page[api.Key]
	rolePage       api.Page[api.Role]
	auditPage      api.Page[api.AuditRow]
	operationPage  api.Page[api.Operation]
	hostPage       api.Page[api.Host]
	processPage    api.Page[api.Process]
	fleetRootPage  api.Page[api.FleetRoot]
	clusterPage    api.Page[api.CloudCluster]
	asidePage      api.Page[api.AsideUsage]
	creditPage     api.Page[api.Credit]
	correctionPage api.Page[api.Correction]
	invoicePage    api.Page[api.InvoiceSummary]
)

// cursor is the decoded text of a cursor: a position in one list. Other lists refuse it.
type cursor struct {
	List  string `json:"l"`
	After string `json:"a"`
}

// pageOf reads ?limit= and ?cursor= of a list request. after is the position of the last item of the page
// before; "" = start of the list.
func pageOf(r *http.Request, list string) (limit int, after string, err error) {
	query := r.URL.Query()
	limit = DefaultPage
	if given := query.Get("limit"); given != "" {
		limit, err = strconv.Atoi(given)
		if err != nil || limit < 1 || limit > MaxPage {
			return 0, "", api.Errorf(api.ValidationError, "limit %s: it takes 1 to %d", text.Quote(given), MaxPage)
		}
	}
	given := query.Get("cursor")
	if given == "" {
		return limit, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(given)
	var c cursor
	if err != nil || json.Unmarshal(raw, &c) != nil || c.After == "" {
		return 0, "", api.Errorf(api.ValidationError, "cursor %s does not belong to this list: send the cursor of a page unchanged", text.Quote(given))
	}
	if c.List != list {
		return 0, "", api.Errorf(api.ValidationError, "the cursor is of another list: begin this one without")
	}
	return limit, c.After, nil
}

// cursorAfter builds the cursor that continues a list after a position.
func cursorAfter(list, after string) (string, error) {
	text, err := json.Marshal(cursor{List: list, After: after})
	return base64.RawURLEncoding.EncodeToString(text), err
}

// writePage writes one page. found holds up to limit+1 items after the cursor; the last of limit+1 items
// shows that there is another page. position returns the position of an item.
func writePage[F, T any](w http.ResponseWriter, list string, limit int, found []F, position func(F) string, convert func(F) T) error {
	page := api.Page[T]{Items: []T{}}
	// The store returns at most store.MaxPage items. If it returns that many, there may be more, and the next
	// page may be empty.
	if len(found) > limit || len(found) == store.MaxPage {
		found = found[:limit]
		var err error
		if page.Cursor, err = cursorAfter(list, position(found[limit-1])); err != nil {
			return err
		}
	}
	for _, f := range found {
		page.Items = append(page.Items, convert(f))
	}
	return serve.WriteJSON(w, http.StatusOK, page)
}
