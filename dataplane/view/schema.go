package view

import (
	_ "embed"
	"regexp"

	"github.com/corvo/corvo/dataplane/job"
)

// schemaVersion is written to the file's user_version. Raise it with every change of the schema or of the
// rows that the projection writes. The view builds a file of another version again.
const schemaVersion = 11

var (
	//go:embed schema/tables.sql
	tablesSQL string
	//go:embed schema/contract.sql
	contractSource string
)

// contractSQL is the contract with every {{column of nanoseconds}} replaced by an expression for RFC 3339
// text of fixed width, which sorts by time. NULL stays NULL.
var contractSQL = regexp.MustCompile(`\{\{(.+?)\}\}`).ReplaceAllString(contractSource,
	`CAST(strftime('%Y-%m-%dT%H:%M:%S', $1 / 1000000000, 'unixepoch') || printf('.%09dZ', $1 % 1000000000) AS TEXT)`)

// rareStates is the predicate of the index hot_by_rare_state. SQLite uses the index only for a query that
// repeats the predicate.
const rareStates = `state <> 'pending' AND state <> 'completed'`

func rare(s job.State) bool { return s != job.Pending && s != job.Completed }
