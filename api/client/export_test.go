package client

// Frames returns the number of frames that the stream of the running worker has sent.
func (w *Worker) Frames() uint64 {
	s, ok := w.active.Load().transport.(*streamTransport)
	if !ok {
		return 0
	}
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.stream.next
}
