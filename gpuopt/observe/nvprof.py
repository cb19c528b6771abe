"""Counters under the names of nvprof, the profiler of the decks' time."""

from __future__ import annotations

from gpuopt.observe.counters import Counters, share


def metrics(counted: Counters, achieved_occupancy: float) -> dict[str, float]:
    """Return nvprof's metrics of some launches; efficiencies are from 0 to 1, not in percent.

    Overheads are replays per instruction: a wavefront, or a transaction, beyond an instruction's
    first is a replay.
    """
    c = counted
    loads, stores = c.shared_load_requests, c.shared_store_requests
    shared = c.shared_load_wavefronts + c.shared_store_wavefronts - loads - stores
    requests = c.global_load_requests + c.global_store_requests
    moved = c.global_load_transactions + c.global_store_transactions - requests
    return {
        "inst_executed": c.warp_instructions,
        "gld_request": c.global_load_requests,
        "gst_request": c.global_store_requests,
        "gld_transactions": c.global_load_transactions,
        "gst_transactions": c.global_store_transactions,
        "gld_transactions_per_request": c.transactions_per_load,
        "gst_transactions_per_request": c.transactions_per_store,
        "gld_efficiency": c.load_efficiency,
        "gst_efficiency": c.store_efficiency,
        "shared_load": loads,
        "shared_store": stores,
        "shared_load_transactions": c.shared_load_wavefronts,
        "shared_store_transactions": c.shared_store_wavefronts,
        "shared_load_transactions_per_request": share(c.shared_load_wavefronts, loads),
        "shared_store_transactions_per_request": share(c.shared_store_wavefronts, stores),
        "shared_replay_overhead": share(shared, c.warp_instructions),
        "global_replay_overhead": share(moved, c.warp_instructions),
        "inst_replay_overhead": share(shared + moved, c.warp_instructions),
        "warp_execution_efficiency": c.warp_efficiency,
        "branch": c.branches,
        "divergent_branch": c.divergent_branches,
        "branch_efficiency": 1 - share(c.divergent_branches, c.branches),
        "achieved_occupancy": achieved_occupancy,
        "flop_count_sp": c.flops_f32,
        "flop_count_dp": c.flops_f64,
        "dram_read_bytes": c.dram_read_bytes,
        "dram_write_bytes": c.dram_write_bytes,
    }
