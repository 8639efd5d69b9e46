package duties

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // for machines without zones of their own, such as bare containers: half a megabyte
)

// zones are those that were asked for, by name: reading one is reading a file.
var zones sync.Map

// Zone is the time zone of a schedule by its name in the IANA database, such as
// "Europe/Berlin". The local zone is none: it is another on each node.
func Zone(name string) (*time.Location, error) {
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("%.64q is no time zone of the IANA database; use one like \"UTC\" or \"Europe/Berlin\"", name)
	}
	zones.Store(name, loc)
	return loc, nil
}
