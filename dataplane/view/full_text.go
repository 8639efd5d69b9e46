package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/corvo/corvo/dataplane/job"
)

// matchText converts a full-text query to FTS5 syntax: a job must have all of its terms. It returns "" for a
// query without terms.
func matchText(text string) (string, error) {
	terms, err := wordTerms(text)
	if len(terms) > job.MaxSearchTerms {
		return "", fmt.Errorf("has %d words and phrases, at most %d are taken", len(terms), job.MaxSearchTerms)
	}
	return strings.Join(terms, " "), err
}

// wordTerms splits a full-text query into words and phrases. It quotes each of them, so that none is read as
// syntax. A star after one stands for any continuation of its last word.
func wordTerms(text string) (terms []string, err error) {
	// FTS5 reads only up to a NUL.
	text = strings.ReplaceAll(text, "\x00", " ")
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		var term string
		if inside, ok := strings.CutPrefix(text, `"`); ok {
			var closed bool
			if term, text, closed = strings.Cut(inside, `"`); !closed {
				return nil, errors.New(`has a quote that is not closed: a phrase is "in quotes"`)
			}
			if rest, ok := strings.CutPrefix(text, "*"); ok {
				term, text = term+"*", rest
			}
		} else {
			end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
			if end < 0 {
				end = len(text)
			}
			term, text = text[:end], text[end:]
		}
		term, prefix := strings.CutSuffix(term, "*")
		if !strings.ContainsFunc(term, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			continue // the index has nothing of it
		}
		term = `"` + term + `"`
		if prefix {
			term += "*"
		}
		terms = append(terms, term)
	}
	return terms, nil
}

// branchByID finds a job by its id, if the full-text query contains the whole id. It leaves out a job that does
// not fit the rest of the query, and a job that the search for match finds already.
func branchByID(question, match string) []branch {
	terms, _ := wordTerms(question) // matchText has reported its errors
	for i, term := range terms {
		id, err := job.ParseID(strings.Trim(term, `"`))
		if err != nil {
			continue
		}
		const found = "EXISTS (SELECT 1 FROM words WHERE words MATCH ? AND words.rowid = d.number)"
		b := branch{tables: "document d INDEXED BY document_by_id", where: "d.id = ? AND NOT " + found, args: []any{id.String(), match}, key: "d.number"}
		if rest := strings.Join(slices.Delete(terms, i, i+1), " "); rest != "" {
			b.where, b.args = b.where+" AND "+found, append(b.args, rest)
		}
		return []branch{b}
	}
	return nil
}

// words writes the full text of a job: the name of its queue, its payload and its tags.
func (w *writer) words(j *job.Job, payload, tags any, fresh bool) error {
	put := w.replaceWords
	if fresh {
		put = w.putWords
	}
	return w.exec(put, int64(j.Number), j.Queue, payload, tags)
}
