// Package servetest attacks tables of routes with hostile requests.
package servetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/serve"
)

const (
	attackBytes = 64 << 10                 // of a list
	kept        = serve.DecodedPerByte + 1 // bytes kept for each byte of a body, with one for unchanged raw JSON

	// Growing lists leave garbage behind, so that decoding may allocate more than it keeps: for each byte of
	// a body, and in any case.
	allocated       = 3 * kept
	allocatedAnyway = 3 * serve.DecodedAnyway
)

// Amplify decodes, for the Request of each route, the bodies that decode to the most memory, and fails the
// test if a body keeps or allocates more than its size allows. There is a body for every list and map of the
// Request, filled with the smallest possible elements and padded with as much white space as Weigh needs to
// accept it. No other test may run at the same time.
func Amplify(t *testing.T, routes []serve.Route) {
	seen := map[string]bool{} // lists occur in many requests
	var worst [2]float64
	var worstBody [2]string
	for _, route := range routes {
		of := reflect.TypeOf(route.Request)
		if of == nil {
			continue
		}
		h := decoder(t, of)
		for _, l := range lists(of, 0) {
			key := fmt.Sprint(l.of, l.least)
			if seen[key] {
				continue
			}
			seen[key] = true
			made, held, sent := admitted(t, h, l.text)
			note := func(what, bytes, most, anyway int) {
				f := float64(bytes-anyway) / float64(sent)
				if f > worst[what] {
					worst[what], worstBody[what] = f, fmt.Sprintf("%v: %.90s", of, l.text)
				}
				if bytes > most*sent+anyway {
					t.Errorf("%v: %d bytes become %d: %.120s", of, sent, bytes, l.text)
				}
			}
			note(0, held, kept, serve.DecodedAnyway)
			note(1, made, allocated, allocatedAnyway)
		}
	}
	t.Logf("%d lists; besides what they may anyway, the worst bodies keep and allocate %.1f times their size: %q", len(seen), worst, worstBody)
}

// decoder returns a server that decodes bodies into a value of a type and reports the memory that decoding
// took.
func decoder(t *testing.T, of reflect.Type) http.Handler {
	h, err := serve.New(serve.Config{MaxBody: 64 << 20, Routes: []serve.Route{{
		Method: "POST", Path: "/", Permission: serve.Open,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			body, err := serve.ReadBody(r)
			if err != nil {
				return err
			}
			into := reflect.New(of).Interface()
			if serve.Weigh(body, into) != nil {
				return serve.Decode(r, body, into) // Decode refuses it too
			}
			var before, decoded, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			err = serve.Decode(r, body, into)
			runtime.ReadMemStats(&decoded)
			runtime.GC()
			runtime.ReadMemStats(&after)
			w.Header().Set("Memory", fmt.Sprint(decoded.TotalAlloc-before.TotalAlloc, int64(after.HeapAlloc)-int64(before.HeapAlloc)))
			runtime.KeepAlive(into)
			runtime.KeepAlive(body)
			return err
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// list is a value with one full list.
type list struct {
	of    reflect.Type
	least string // its element
	text  string
}

// admitted sends a body, padded with white space until it is accepted. It returns the bytes that decoding
// allocated, those that it kept, and the size of the padded body.
func admitted(t *testing.T, h http.Handler, body string) (made, held, sent int) {
	for pad := 0; pad < 100; pad = pad*5/4 + 1 {
		text := append([]byte(body), bytes.Repeat([]byte(" "), pad*len(body)/2)...)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/", bytes.NewReader(text)))
		if w.Code == http.StatusRequestEntityTooLarge {
			continue
		}
		if _, err := fmt.Sscan(w.Header().Get("Memory"), &made, &held); err != nil {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return made, held, len(text)
	}
	t.Fatalf("it is never admitted: %.120s", body)
	return 0, 0, 0
}

// lists returns a value for each list that a type can contain.
func lists(t reflect.Type, depth int) (all []list) {
	within := func(format string, of reflect.Type) {
		for _, inner := range lists(of, depth+1) {
			inner.text = fmt.Sprintf(format, inner.text)
			all = append(all, inner)
		}
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return lists(t.Elem(), depth)
	case depth > 6 || t == reflect.TypeFor[json.RawMessage]():
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		for _, v := range least(t.Elem(), depth) {
			all = append(all, list{t, v, "[" + strings.Repeat(v+",", attackBytes/(len(v)+1)) + v + "]"})
		}
		within("[%s]", t.Elem())
	case t.Kind() == reflect.Map:
		for _, v := range least(t.Elem(), depth) {
			all = append(all, list{t, v, names(v)})
		}
		within(`{"":%s}`, t.Elem())
	case t.Kind() == reflect.Struct:
		all = append(all, list{nil, "0", names(`0`)}) // of unknown members
		named := map[string]bool{}
		for _, f := range fields(t) {
			name := strings.ToLower(f.Tag.Get("json"))
			if name, _, _ = strings.Cut(name, ","); named[name] {
				panic(fmt.Sprintf("%v has two fields %q: who weighs it may take the wrong one", t, name))
			}
			named[name] = true
			within(member(f, "%s"), f.Type)
		}
	}
	return all
}

// names returns an object with as many short names as fit.
func names(v string) string {
	var b strings.Builder
	for i := 0; b.Len() < attackBytes; i++ {
		fmt.Fprintf(&b, `,"%x":%s`, i, v)
	}
	return "{" + b.String()[1:] + "}"
}

// least returns the shortest values of a type, with each of its pointers, maps and slices set in turn.
func least(t reflect.Type, depth int) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return least(t.Elem(), depth)
	case reflect.String:
		return []string{`""`}
	case reflect.Map:
		return []string{`{"":""}`}
	case reflect.Slice:
		return []string{`[]`}
	case reflect.Struct:
		all := []string{`{}`}
		for _, f := range fields(t) {
			switch f.Type.Kind() {
			case reflect.Pointer, reflect.Map, reflect.Slice:
				if depth < 4 {
					all = append(all, member(f, least(f.Type, depth+4)[0]))
				}
			}
		}
		return all
	}
	return []string{`0`}
}

func member(f reflect.StructField, v string) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return `{"` + name + `":` + v + `}`
}

func fields(t reflect.Type) (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && f.Tag.Get("json") != "" && f.Tag.Get("json") != "-" {
			all = append(all, f)
		}
	}
	return all
}
