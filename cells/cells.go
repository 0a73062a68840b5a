// Package cells is the buffer manager: the accounting that decides whether a frame is let in and
// when the link partner must stop. The memory itself is in package umem.
//
// # Buffers and cells
//
// A buffer holds one frame. A cell is what a frame is charged in: a frame of n bytes costs ceil(n /
// cell size) cells, as in switch chips (Nexus 5000: 160 B, Nexus 2000: 80 B). A frame costs at
// least one cell and holds at least one buffer, so with as many buffers as cells the accounting
// never promises what the memory can't hold.
//
// # Ingress: priority groups and pools
//
// Each (port, priority) is a priority group, the model of the Switch Abstraction Interface (SAI,
// saibuffer.h). The cells are cut once, at construction:
//
//	cells = sum of reserved + for each pool: shared cells + headroom
//
// A frame's cells are taken from the group's reserved part, then from the shared cells of its pool
// up to the group's limit, then, in a lossless group only, from the group's headroom.
//
//	         0        reserved           limit            + headroom
//	lossy    |---own-----|-----shared-----| drop: ingress_full
//	lossless |---own-----|-----shared-----| XOFF |--------| drop: headroom_full (an alarm)
//	                   XON ^
//
// The limit is static, or dynamic: alpha times what is free of the pool at that moment, so that one
// busy group gets much, many get little each, and some is left for one that comes later.
//
// The first cell in headroom puts the group into XOFF (IEEE 802.1Qbb: its priority is to be
// paused). It leaves XOFF when its headroom is empty again and its other cells are down to max(XON,
// limit − XON offset).
//
// Reserved cells belong to their group alone, and so does headroom, unless the pool keeps less than
// its groups' headrooms together: then it is shared, and the bet is that not all groups need theirs
// at once.
//
// # Egress: queues
//
// Independently of that, a frame is charged to the (port, queue) that it waits in. A queue with a
// limit, static or dynamic, drops at its tail; a queue without one never drops, as lossless classes
// need: there the ingress side holds the bound.
//
// # Watermarks
//
// Groups, queues and pools remember the most that they held: since ClearWatermarks, and ever.
package cells
