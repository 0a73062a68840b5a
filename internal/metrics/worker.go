package metrics

import (
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"sluice/internal/dataplane"
)

var (
	loopGap = &family{"sluice_worker_loop_gap_seconds",
		"Time between two iterations of the worker's loop; while it lasts, the worker hears and says nothing.",
		dto.MetricType_HISTOGRAM, []string{"worker"}}
	loopGapMax = gauge("sluice_worker_loop_gap_max_seconds",
		"The longest time between two iterations since the worker began.", "worker")
	loopWaitMax = gauge("sluice_worker_loop_wait_max_seconds",
		"The longest two such times in a row since the worker began: so long a frame may have waited until the worker found it. "+
			"sluice_port_response_seconds has to cover it.", "worker")
	loopWaitRecent = gauge("sluice_worker_loop_wait_recent_seconds",
		"sluice_worker_loop_wait_max_seconds of the last ten minutes, or up to a minute more.", "worker")
	lateIterations = counter("sluice_worker_late_iterations_total",
		"Iterations that came later after the last one than the shortest sluice_port_response_seconds of the worker's ports "+
			"(at that time; those later by less than an eighth of it may be missing): headroom may not have held what arrived meanwhile. "+
			"Nor may it if two times in a row are longer together, which is not counted: see sluice_worker_loop_wait_max_seconds.", "worker")
	busyIterations = counter("sluice_worker_busy_iterations_total",
		"Iterations that moved a frame or a buffer; the loop never rests, so others are idle.", "worker")
	busyTime = counter("sluice_worker_busy_seconds_total",
		"Time that iterations took which moved something; its rate is how busy the worker is.", "worker")
	buffers = gauge("sluice_worker_buffers",
		"Frame buffers that the worker has, each for one frame.", "worker")
	freeBuffers = gauge("sluice_worker_free_buffers",
		"Frame buffers of the worker that hold no frame and are with no driver.", "worker")
	usedMemory = gauge("sluice_worker_used_bytes",
		"Memory that all frames which came in by the worker's ports hold, in whole cells.", "worker")

	ingressSize = gauge("sluice_ingress_pool_size_bytes",
		"Shared memory of the pool, from which priority groups take what they have not reserved.", "pool", "worker")
	ingressUsed = gauge("sluice_ingress_pool_used_bytes",
		"Shared memory of the pool that priority groups have taken.", "pool", "worker")
	ingressWatermark = gauge("sluice_ingress_pool_watermark_bytes",
		"The most shared memory that was taken since the watermarks were cleared.", "pool", "worker")
	ingressHeadroomSize = gauge("sluice_ingress_pool_headroom_size_bytes",
		"Memory that the pool keeps for the headrooms of its priority groups together.", "pool", "worker")
	ingressHeadroomUsed = gauge("sluice_ingress_pool_headroom_used_bytes",
		"Headroom of the pool that is taken.", "pool", "worker")
	egressSize = gauge("sluice_egress_pool_size_bytes",
		"Memory that the egress queues with a dynamic limit share.", "pool", "worker")
	egressUsed = gauge("sluice_egress_pool_used_bytes",
		"Memory of the pool that egress queues with a dynamic limit have taken.", "pool", "worker")
	egressWatermark = gauge("sluice_egress_pool_watermark_bytes",
		"The most memory of the pool that was taken since the watermarks were cleared.", "pool", "worker")

	departedDrops = counter("sluice_departed_lossless_dropped_frames_total",
		"What sluice_lossless_dropped_frames_total was of ports that have been taken out of the switch.", "worker")

	stations = gauge("sluice_bridge_stations",
		"Addresses that the worker knows, static ones included.", "worker")
	learned = counter("sluice_bridge_learned_stations_total",
		"Addresses that became known.", "worker")
	moved = counter("sluice_bridge_moved_stations_total",
		"Times that a known address was seen on another port and followed there.", "worker")
	refused = counter("sluice_bridge_unlearned_frames_total",
		"Frames whose source was not learned: table_full, port_full (its limit), pinned (a static entry says otherwise), "+
			"own (the switch's own address: the frame has come round a loop).", "reason", "worker")
	unknown = counter("sluice_bridge_unknown_destination_frames_total",
		"Frames to an individual address that was not known.", "worker")
)

// worker adds what is known of a worker beside its ports, and how many of its iterations were late.
func (s sink) worker(w *dataplane.Snapshot, late uint64) {
	name := strconv.Itoa(w.Worker)
	bytes := func(cells int) float64 { return float64(cells * w.CellSize) }
	s.loop(name, w)
	s.add(lateIterations, float64(late), name)
	s.add(busyIterations, float64(w.Work.Iterations), name)
	s.add(busyTime, seconds(w.Work.NS), name)
	s.add(buffers, float64(w.Buffers), name)
	s.add(freeBuffers, float64(w.Free), name)
	s.add(usedMemory, bytes(w.CellsInUse), name)
	for i, p := range w.Pools {
		pool := strconv.Itoa(i)
		s.add(ingressSize, bytes(p.Size), pool, name)
		s.add(ingressUsed, bytes(p.Used), pool, name)
		s.add(ingressWatermark, bytes(p.Peak), pool, name)
		s.add(ingressHeadroomSize, bytes(p.HeadroomSize), pool, name)
		s.add(ingressHeadroomUsed, bytes(p.Headroom), pool, name)
	}
	for i, p := range w.Egress {
		pool := strconv.Itoa(i)
		s.add(egressSize, bytes(p.Size), pool, name)
		s.add(egressUsed, bytes(p.Used), pool, name)
		s.add(egressWatermark, bytes(p.Peak), pool, name)
	}
	s.add(departedDrops, float64(w.Departed), name)
	s.add(stations, float64(w.Stations), name)
	s.add(learned, float64(w.Bridge.Learned), name)
	s.add(moved, float64(w.Bridge.Moved), name)
	s.add(refused, float64(w.Bridge.TableFull), "table_full", name)
	s.add(refused, float64(w.Bridge.PortFull), "port_full", name)
	s.add(refused, float64(w.Bridge.Pinned), "pinned", name)
	s.add(refused, float64(w.Bridge.Own), "own", name)
	s.add(unknown, float64(w.Bridge.Unknown), name)
}

// The buckets of the loop's gaps end at powers of two, from 1 µs to 1 s.
const firstGap, lastGap = 10, 30

// loop adds the gaps of a worker's loop. Their sum is how long it has run: between two gaps there is nothing.
func (s sink) loop(name string, w *dataplane.Snapshot) {
	h := &dto.Histogram{SampleCount: new(w.Gap.Iterations()), SampleSum: new(seconds(w.Now))}
	for i := firstGap; i <= lastGap; i++ {
		longest := int64(1)<<i - 1
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: new(seconds(longest)), CumulativeCount: new(w.Gap.AtMost(longest))})
	}
	s.series(loopGap, name).Histogram = h
	s.add(loopGapMax, seconds(w.Gap.Max), name)
	s.add(loopWaitMax, seconds(w.Gap.Wait), name)
	s.add(loopWaitRecent, seconds(w.Gap.Recent), name)
}
