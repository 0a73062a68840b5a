// Package cells is the buffer manager: the memory that frames live in, the free buffers of a worker, and the
// accounting that decides whether a frame is let in and when the link partner must stop.
//
// # Buffers and cells
//
// A buffer holds one frame. A cell is what a frame is charged in: a frame of n bytes costs ceil(n / cell size)
// cells, as in switch chips (Nexus 5000: 160 B, Nexus 2000: 80 B). A frame costs at least one cell and holds at
// least one buffer, so with as many buffers as cells the accounting never promises what the memory can't hold.
//
// # Ingress: priority groups
//
// Each (port, priority) is a priority group, the model of the Switch Abstraction Interface (SAI, saibuffer.h). All
// groups share one pool of cells, cut once at construction:
//
//	cells = sum of reserved + sum of headroom + shared pool
//
// A frame's cells are taken from the group's reserved part, then from the shared pool up to the group's share,
// then, in a lossless group only, from the group's headroom. Reserved cells and headroom belong to their group
// alone. Shares may add up to more than the shared pool.
//
//	         0        reserved      reserved+share          + headroom
//	lossy    |---own-----|-----shared-----| drop: ingress_full
//	lossless |---own-----|-----shared-----| XOFF |---own----| drop: headroom_full (an alarm)
//	                        ^ XON
//
// The first cell in headroom puts the group into XOFF (IEEE 802.1Qbb: its priority is to be paused). It leaves
// XOFF when its headroom is empty again and its reserved and shared cells are down to the XON mark.
//
// # Egress: queues
//
// Independently of that, a frame is charged to the (port, queue) that it waits in. A queue with a limit drops at
// its tail; a queue without one never drops, as lossless classes need: there the ingress side holds the bound.
package cells
