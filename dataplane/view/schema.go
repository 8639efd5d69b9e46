package view

import (
	_ "embed"
	"regexp"

	"github.com/corvo/corvo/dataplane/job"
)

// schemaVersion stands in the file's user_version. It rises with any change of
// the schema or of what the projection writes; a file of another version is
// built again.
const schemaVersion = 10

var (
	//go:embed schema/tables.sql
	tablesSQL string
	//go:embed schema/contract.sql
	contractSource string
)

// contractSQL has every {{column of nanoseconds}} written out as RFC 3339 text
// of fixed width, which sorts as time does. NULL stays NULL.
var contractSQL = regexp.MustCompile(`\{\{(.+?)\}\}`).ReplaceAllString(contractSource,
	`CAST(strftime('%Y-%m-%dT%H:%M:%S', $1 / 1000000000, 'unixepoch') || printf('.%09dZ', $1 % 1000000000) AS TEXT)`)

// rareStates is the predicate of the index hot_by_rare_state; SQLite uses the
// index only for a query that repeats it.
const rareStates = `state <> 'pending' AND state <> 'completed'`

func rare(s job.State) bool { return s != job.Pending && s != job.Completed }
