// Package cells is the buffer manager: the accounting that decides whether a frame is admitted and
// when the link partner must stop. The memory itself is in package umem.
//
// # Buffers and cells
//
// A buffer holds a frame, or a part of one that is too long for a buffer. A cell is the unit of
// accounting: a frame of n bytes costs ceil(n / cell size) cells, as in switch chips (Nexus 5000:
// 160 B, Nexus 2000: 80 B). A cell is no larger than a part, so a frame costs at least as many
// cells as it has parts. With as many buffers as cells, the accounting therefore never promises
// more than the memory can hold.
//
// # Ingress: priority groups and pools
//
// Each (port, priority) is a priority group, as in the Switch Abstraction Interface (SAI,
// saibuffer.h). The cells are divided up at construction:
//
//	cells = sum of reserved + for each pool: shared cells + headroom
//
// A frame takes cells from the group's reserved part first, then from the shared cells of its pool
// up to the group's limit, then, in a lossless group only, from the group's headroom.
//
//	         0        reserved           limit            + headroom
//	lossy    |---own-----|-----shared-----| drop: ingress_full
//	lossless |---own-----|-----shared-----| XOFF |--------| drop: headroom_full (an alarm)
//	                   XON ^
//
// The limit is static or dynamic. A dynamic limit is alpha times the pool's free cells at that
// moment: a single busy group gets much, many busy groups get little each, and some cells stay free
// for a group that starts later.
//
// The first cell in headroom puts the group into XOFF (IEEE 802.1Qbb: its priority is to be
// paused). The group leaves XOFF when its headroom is empty again and its other cells are down to
// max(XON, limit − XON offset).
//
// Reserved cells belong to their group alone. So does headroom, unless the pool keeps less headroom
// than the sum of its groups': then the groups share it, on the assumption that they do not all
// need theirs at the same time.
//
// # Egress: queues
//
// A frame is also charged, independently, to the (port, queue) that it waits in. A queue with a
// limit, static or dynamic, drops at its tail. A queue without a limit never drops, as lossless
// classes require; there the ingress side is the bound.
//
// # Watermarks
//
// Groups, queues and pools record the most cells that they have held, since ClearWatermarks and
// since the start.
package cells
