package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/cell"
)

// lagHeader names the header with the maximum age, in milliseconds, of an answer from the view.
const lagHeader = "Corvo-View-Lag-Ms"

// viewAge is the maximum age of an answer from the view; 0 means that it shows everything in the store.
type viewAge time.Duration

// showAge sets the header to the age of the oldest of the shards' views. The caller queries the views after
// showAge, so that the answer is not older than the header says.
func showAge(w http.ResponseWriter, read ...*cell.Cell) (age viewAge) {
	for _, c := range read {
		_, lag := c.View().Lag()
		age = max(age, viewAge(lag))
	}
	w.Header().Set(lagHeader, strconv.FormatInt(age.milliseconds(), 10))
	return age
}

// milliseconds rounds up, because 0 means that nothing is missing.
func (a viewAge) milliseconds() int64 {
	return (time.Duration(a) + time.Millisecond - 1).Milliseconds()
}

// asOf returns the moment before which nothing is missing in the answer.
func (a viewAge) asOf(now time.Time) api.Time { return api.TimeOf(now.Add(-time.Duration(a))) }
