package state

// laneHeap is a set of lanes, ordered by before, whose first lane is found in constant time. Each lane stores
// its place in the heap.
type laneHeap struct {
	list   []*lane
	before func(a, b *lane) bool
	place  func(l *lane) *int // 1 + its index in list; 0 if it is not in the heap
}

// first returns the lane that comes before all others, or nil for an empty heap.
func (h *laneHeap) first() *lane {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}

func (h *laneHeap) push(l *lane) {
	h.list = append(h.list, l)
	*h.place(l) = len(h.list)
	h.up(len(h.list) - 1)
}

func (h *laneHeap) remove(l *lane) {
	at, last := *h.place(l)-1, len(h.list)-1
	if at != last {
		h.swap(at, last)
	}
	h.list[last] = nil
	h.list = h.list[:last]
	*h.place(l) = 0
	if at != last {
		h.fix(h.list[at])
	}
}

// fix moves a changed lane to its place.
func (h *laneHeap) fix(l *lane) {
	if at := *h.place(l) - 1; !h.up(at) {
		h.down(at)
	}
}

func (h *laneHeap) up(at int) (moved bool) {
	for at > 0 {
		parent := (at - 1) / 2
		if !h.before(h.list[at], h.list[parent]) {
			break
		}
		h.swap(at, parent)
		at, moved = parent, true
	}
	return moved
}

func (h *laneHeap) down(at int) {
	for {
		child := 2*at + 1
		if child >= len(h.list) {
			return
		}
		if right := child + 1; right < len(h.list) && h.before(h.list[right], h.list[child]) {
			child = right
		}
		if !h.before(h.list[child], h.list[at]) {
			return
		}
		h.swap(at, child)
		at = child
	}
}

func (h *laneHeap) swap(a, b int) {
	h.list[a], h.list[b] = h.list[b], h.list[a]
	*h.place(h.list[a]), *h.place(h.list[b]) = a+1, b+1
}
