package server

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/view"
)

// A page over several shards is merged from one page of each shard. For each shard that may have more jobs,
// the page's cursor contains the shard's own cursor: the position after its last job on the page. A shard
// that the cursor leaves out has no more jobs. A matching job is shown exactly once if it keeps its shard and
// its position in the shard's order. A job that moves to another shard between two pages gets a new position
// there, so it may be shown twice or left out.

// cursorsVersion is the first byte of a cursor of several shards. For each shard follow its number and the
// length of its cursor as unsigned varints, and the cursor.
const cursorsVersion = 2

// maxShardCursor bounds the cursor of one shard, maxCursors the cursor of all shards.
const maxShardCursor = 128

var maxCursors = base64.RawURLEncoding.EncodedLen(1 + host.MaxShards*(3+maxShardCursor))

// shardCursor says where a search continues in a shard; an empty text is the beginning.
type shardCursor struct {
	cell *cell.Cell
	text string
	over bool // the whole shard has been shown
}

func formatCursors(all []shardCursor) string {
	b := []byte{cursorsVersion}
	for _, c := range all {
		if c.over {
			continue
		}
		b = binary.AppendUvarint(b, uint64(c.cell.Shard()))
		b = binary.AppendUvarint(b, uint64(len(c.text)))
		b = append(b, c.text...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursors parses the text of formatCursors into a cursor for each shard. A shard that the text leaves
// out is over, but an empty text is the beginning of every shard.
func parseCursors(text string, cells []*cell.Cell) ([]shardCursor, error) {
	all := make([]shardCursor, len(cells))
	for i, c := range cells {
		all[i] = shardCursor{cell: c, over: text != ""}
	}
	if text == "" {
		return all, nil
	}
	bad := api.Errorf(api.ValidationError, "cursor is not one this server gave out: start again without it")
	if len(text) > maxCursors {
		return nil, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 2 || b[0] != cursorsVersion {
		return nil, bad
	}
	for b = b[1:]; len(b) > 0; {
		shard, n := binary.Uvarint(b)
		if n <= 0 || shard >= uint64(len(cells)) || !all[shard].over {
			return nil, bad
		}
		length, m := binary.Uvarint(b[n:])
		if m <= 0 || length > maxShardCursor || uint64(len(b)-n-m) < length {
			return nil, bad
		}
		b = b[n+m:]
		all[shard] = shardCursor{cell: cells[shard], text: string(b[:length])}
		b = b[length:]
	}
	return all, nil
}

// mergePages returns the first query.Limit jobs of the shards' pages, in the query's order. It returns fewer
// if a shard's page ends earlier and the shard has more jobs. Jobs in the same position are ordered by shard.
// mergePages overwrites pages.
func mergePages(query view.Query, from []shardCursor, pages []view.Page) view.Page {
	out := view.Page{Jobs: []api.Job{}}
	for i, p := range pages {
		out.Total += p.Total
		out.TotalIsEstimate = out.TotalIsEstimate || p.TotalIsEstimate
		if from[i].over {
			pages[i] = view.Page{}
			continue
		}
		if p.Partial {
			out.Partial, out.PartialReason = true, p.PartialReason
		}
	}
	shown := make([]int, len(pages)) // jobs taken from each page
	for len(out.Jobs) < query.Limit {
		next := -1
		for i, p := range pages {
			if shown[i] == len(p.Jobs) {
				if p.HasMore { // its next job, which may come before the others, is unknown
					next = -1
					break
				}
				continue
			}
			if next < 0 || p.SortKeys[shown[i]].Compare(pages[next].SortKeys[shown[next]], query.Order) < 0 {
				next = i
			}
		}
		if next < 0 {
			break
		}
		out.Jobs = append(out.Jobs, pages[next].Jobs[shown[next]])
		shown[next]++
	}
	var rest []shardCursor
	for i, p := range pages {
		switch {
		case shown[i] == len(p.Jobs) && !p.HasMore: // the shard has no more jobs
		case shown[i] == len(p.Jobs):
			rest = append(rest, shardCursor{cell: from[i].cell, text: p.Cursor})
		default:
			rest = append(rest, shardCursor{cell: from[i].cell, text: p.CursorAfter(shown[i])})
		}
	}
	if out.HasMore = len(rest) > 0; out.HasMore {
		out.Cursor = formatCursors(rest)
	}
	return out
}
