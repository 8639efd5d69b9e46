package duties

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // for machines without zones of their own, such as bare containers: half a megabyte
)

// zones caches the time zones by name, because loading one reads a file.
var zones sync.Map

// Zone returns a time zone by its name in the IANA database, such as "Europe/Berlin". It refuses the local
// zone, because that differs among nodes.
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
