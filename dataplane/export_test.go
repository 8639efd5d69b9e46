package dataplane

import "github.com/corvo/corvo/dataplane/cell"

// Cells are the node's shards.
func (n *Node) Cells() []*cell.Cell { return n.cells }
