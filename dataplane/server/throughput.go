package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

// throughput answers with the counts of events of the last minute, for each queue that the caller may see.
// The counts cover what this node's views have read since the node's start. They come from memory: throughput
// neither waits for the views nor reads a file.
func (s *Server) throughput(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	out := api.Throughput{PeriodSeconds: api.ThroughputSeconds, Queues: []api.QueueThroughput{}}
	showAge(w, q.shards.All()...)
	now := time.Now()
	for _, c := range q.shards.All() {
		rates := c.View().Rates(now)
		for _, queue := range slices.Sorted(maps.Keys(rates)) {
			if q.who.Covers(queue) {
				out.Rates = out.Rates.Plus(rates[queue])
				out.Queues = append(out.Queues, api.QueueThroughput{Queue: queue, Rates: rates[queue]})
			}
		}
	}
	slices.SortFunc(out.Queues, func(a, b api.QueueThroughput) int { return strings.Compare(a.Queue, b.Queue) })
	return serve.WriteJSON(w, http.StatusOK, out)
}
