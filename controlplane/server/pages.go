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

// The bounds of a page.
const (
	DefaultPage = 100
	MaxPage     = store.MaxPage
)

// paging are the parameters of a list.
var paging = []serve.Param{
	{Name: "limit", Type: "integer", Doc: "items on a page, from 1 to 1000; default 100"},
	{Name: "cursor", Doc: "cursor of the next page, from the answer before"},
}

// auditPaging are the parameters of a check of the audit log.
var auditPaging = []serve.Param{
	{Name: "limit", Type: "integer", Doc: "rows to check, from 1 to 1000; default 100"},
	{Name: "cursor", Doc: "cursor of the next rows, from the answer before"},
}

// The pages of the document; api.Page is generic, and a schema needs a name.
type (
	orgPage       api.Page[api.Org]
	namespacePage api.Page[api.Namespace]
	keyPage       api.Page[api.Key]
	rolePage      api.Page[api.Role]
	auditPage     api.Page[api.AuditRow]
	operationPage api.Page[api.Operation]
	hostPage      api.Page[api.Host]
	asidePage     api.Page[api.AsideUsage]
)

// cursor is what a cursor's text says: a place in one list, and in no other.
type cursor struct {
	List  string `json:"l"`
	After string `json:"a"`
}

// pageOf reads ?limit= and ?cursor= of a request for a list: how many items, and
// after which ("" = from the start).
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

// cursorAfter builds the cursor of a list that goes on after a place.
func cursorAfter(list, after string) (string, error) {
	text, err := json.Marshal(cursor{List: list, After: after})
	return base64.RawURLEncoding.EncodeToString(text), err
}

// writePage answers a page. found are the items after the cursor, one more than
// limit if there are so many; place is where an item stands in the list.
func writePage[F, T any](w http.ResponseWriter, list string, limit int, found []F, place func(F) string, convert func(F) T) error {
	page := api.Page[T]{Items: []T{}}
	// The store gives no more than its own bound, so after a page of that there may
	// be an empty one.
	if len(found) > limit || len(found) == store.MaxPage {
		found = found[:limit]
		var err error
		if page.Cursor, err = cursorAfter(list, place(found[limit-1])); err != nil {
			return err
		}
	}
	for _, f := range found {
		page.Items = append(page.Items, convert(f))
	}
	return serve.WriteJSON(w, http.StatusOK, page)
}
