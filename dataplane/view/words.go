package view

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/corvo/corvo/dataplane/job"
)

// matchText is a question to the full text as FTS5 reads it: every word and "phrase"
// is quoted, so that none is syntax, and all of them have to be there. A star behind
// one stands for how the last word goes on. It is "" where nothing is asked for.
func matchText(text string) (string, error) {
	// FTS5 reads up to a NUL.
	text = strings.ReplaceAll(text, "\x00", " ")
	var terms []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		var term string
		if inside, ok := strings.CutPrefix(text, `"`); ok {
			var closed bool
			if term, text, closed = strings.Cut(inside, `"`); !closed {
				return "", errors.New(`has a quote that is not closed: a phrase is "in quotes"`)
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
			continue // nothing of it is in the index
		}
		term = `"` + term + `"`
		if prefix {
			term += "*"
		}
		terms = append(terms, term)
	}
	if len(terms) > job.MaxSearchTerms {
		return "", fmt.Errorf("has %d words and phrases, at most %d are taken", len(terms), job.MaxSearchTerms)
	}
	return strings.Join(terms, " "), nil
}

// words are what the full text has of a job: its payload and its tags.
func (w *writer) words(number uint64, payload, tags any, fresh bool) error {
	if fresh {
		return w.exec(w.putWords, int64(number), payload, tags)
	}
	return w.exec(w.replaceWords, int64(number), payload, tags)
}
