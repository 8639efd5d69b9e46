package serve

import (
	"net/http"
	"strconv"
	"time"
)

// response is the writer of handlers. It adds Server-Timing when the header is sent, and records the status.
// If no endpoint has claimed the request, the mux itself writes a response in plain text: response records
// its status and drops everything else.
type response struct {
	http.ResponseWriter
	call    *call
	status  int  // 0 = no response has begun
	claimed bool // by an endpoint
}

func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	if !w.claimed {
		w.status = status
		return
	}
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status) // informational: the response follows
		return
	}
	w.status = status
	c := w.call
	var buf [40]byte
	timing := append(buf[:0], "proc;dur="...)
	timing = appendMillis(timing, time.Since(c.start))
	c.headers[1] = string(timing)
	w.Header()["Server-Timing"] = c.headers[1:2:2]
	if mark := c.server.mark; mark != nil {
		mark(c, w.Header(), c.refusal, c.changed.Load())
	}
	w.ResponseWriter.WriteHeader(status)
}

// appendMillis appends a duration in milliseconds with three decimals.
func appendMillis(b []byte, d time.Duration) []byte {
	us := d.Microseconds()
	b = strconv.AppendInt(b, us/1000, 10)
	rest := us % 1000
	return append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}

func (w *response) Write(b []byte) (int, error) {
	if !w.claimed {
		return len(b), nil
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// FlushError sends the header, with status 200 if no response has begun, and everything written so far.
// http.ResponseController calls it.
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush calls FlushError, for callers that need an http.Flusher. It drops the error, because the next
// Write returns it too.
func (w *response) Flush() { _ = w.FlushError() }

// Unwrap lets http.ResponseController use the other methods of the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
