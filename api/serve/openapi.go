package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/corvo/corvo/api"
)

// Info is the head of an OpenAPI document.
type Info struct {
	Title       string
	Version     string
	Description string
}

// object is a JSON object of the document. Its members are written sorted by name, so that equal tables
// give equal bytes.
type object = map[string]any

// Document returns the indented OpenAPI 3.1 document of a table of routes. The same table always gives the
// same bytes. It is an error if two types or two operations have one name, or if a type is named Problem.
func Document(info Info, routes []Route) ([]byte, error) {
	d := document{schemas: newSchemas()}
	paths, patterns := object{}, map[string]string{}
	for _, route := range routes {
		path := documentPath(route.Path)
		item, ok := paths[path].(object)
		if !ok {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(route.Method)] = d.operation(route)
		id := operationID(route)
		if other, taken := patterns[id]; taken {
			d.schemas.fault("two operations are called %s: %s and %s", id, other, route.pattern())
		}
		patterns[id] = route.pattern()
	}
	d.schemas.named["Problem"] = problemSchema()
	if err := d.schemas.err(); err != nil {
		return nil, err
	}
	head := object{"title": info.Title, "version": info.Version}
	if info.Description != "" {
		head["description"] = info.Description
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info":    head,
		"paths":   paths,
		"components": object{
			"schemas":   d.schemas.named,
			"responses": object{"Problem": problemResponse()},
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer", "description": "API key"},
				"apiKey": object{"type": "apiKey", "in": "header", "name": "X-API-Key"},
			},
		},
	}, "", "  ")
}

type document struct {
	schemas *schemas
}

func (d *document) operation(r Route) object {
	status := r.Status
	if status == 0 {
		status = http.StatusOK
	}
	answer := object{"description": http.StatusText(status)}
	if r.Response != nil {
		answer["content"] = jsonContent(d.schemas.of(r.Response))
	}
	op := object{
		"operationId": operationID(r),
		"summary":     r.Summary,
		"responses": object{
			strconv.Itoa(status): answer,
			"default":            object{"$ref": "#/components/responses/Problem"},
		},
	}
	if r.Description != "" {
		op["description"] = r.Description
	}
	if r.Permission == Open {
		op["security"] = []any{}
	} else {
		op["security"] = []any{object{"bearer": []any{}}, object{"apiKey": []any{}}}
		op["x-permission"] = string(r.Permission)
	}
	if r.Request != nil {
		op["requestBody"] = object{"content": jsonContent(d.schemas.of(r.Request))}
	}
	if parameters := parametersOf(r); len(parameters) > 0 {
		op["parameters"] = parameters
	}
	return op
}

func jsonContent(schema object) object {
	return object{"application/json": object{"schema": schema}}
}

var wildcard = regexp.MustCompile(`\{([^}]*)\}`)

// documentPath converts a path of the mux to OpenAPI, which has neither {name...} nor {$}.
func documentPath(path string) string {
	path = strings.TrimSuffix(path, "{$}")
	return strings.ReplaceAll(path, "...}", "}")
}

var conditionDocs = map[string]string{
	IfMatch:     "ETag of an earlier read; a changed resource is refused with PRECONDITION_FAILED",
	IfNoneMatch: "*: an existing resource is refused with PRECONDITION_FAILED",
}

func parametersOf(r Route) []any {
	var all []any
	for _, match := range wildcard.FindAllStringSubmatch(documentPath(r.Path), -1) {
		all = append(all, object{"name": match[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range r.Query {
		kind := p.Type
		if kind == "" {
			kind = "string"
		}
		parameter := object{"name": p.Name, "in": "query", "schema": object{"type": kind}}
		if p.Doc != "" {
			parameter["description"] = p.Doc
		}
		all = append(all, parameter)
	}
	for _, header := range r.Conditions {
		all = append(all, object{"name": header, "in": "header", "schema": object{"type": "string"}, "description": conditionDocs[header]})
	}
	return all
}

// operationID returns the route's Operation, or else a name derived from method and path, such as
// postJobsIdRetry for POST /api/v1/jobs/{id}/retry, because code generators need one.
func operationID(r Route) string {
	if r.Operation != "" {
		return r.Operation
	}
	var id strings.Builder
	id.WriteString(strings.ToLower(r.Method))
	for _, segment := range strings.FieldsFunc(documentPath(r.Path), func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9')
	}) {
		if segment == "api" || segment == "v1" {
			continue
		}
		id.WriteString(strings.ToUpper(segment[:1]) + segment[1:])
	}
	return id.String()
}

func problemResponse() object {
	return object{
		"description": "The request failed.",
		"content":     jsonContent(object{"$ref": "#/components/schemas/Problem"}),
	}
}

// problemSchema returns the schema of errors. It lists every code with its status.
func problemSchema() object {
	codes := api.Codes()
	lines := make([]string, len(codes))
	for i, c := range codes {
		lines[i] = fmt.Sprintf("%s (%d)", c, c.Status())
	}
	return object{
		"type":     "object",
		"required": []string{"error", "code"},
		"properties": object{
			"error": object{"type": "string", "description": "The fault and its remedy."},
			"code":  object{"type": "string", "description": "Stable error code: one of " + strings.Join(lines, ", ")},
			"details": object{
				"type":        "object",
				"description": "Details by code; for retryable codes, retryable is true.",
				"properties": object{
					"retryable":         object{"type": "boolean"},
					"retry_after_ms":    object{"type": "integer"},
					api.DetailUnchanged: object{"type": "boolean", "description": "If true, the request changed nothing and never will: it can be sent again without an Idempotency-Key."},
				},
			},
		},
	}
}
