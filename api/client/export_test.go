package client

// Frames is how many frames the running worker's stream has sent; the server is asked
// that often beside its requests.
func (w *Worker) Frames() uint64 {
	s, ok := w.active.Load().line.(*streamed)
	if !ok {
		return 0
	}
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.stream.next
}
