"""The table of the rules on speed. The rules on errors follow the findings: errors.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuopt.advice import compute, launches, memory
from gpuopt.advice.evidence import Evidence
from gpuopt.advice.explanation import Advice


class Rule(NamedTuple):
    """A rule on speed: its name, and the function from evidence to advice."""

    name: str
    test: Callable[[Evidence], Iterator[Advice]]


RULES = (
    Rule("divergent-barrier", compute.partial_barriers),
    Rule("double-literal", compute.double_literal),
    Rule("uncoalesced", memory.uncoalesced),
    Rule("uncoalesced", memory.against_the_rule),
    Rule("partial-sectors", memory.partial_sectors),
    Rule("half-dram-access", memory.half_sectors),
    Rule("bank-conflicts", memory.bank_conflicts),
    Rule("divergence", compute.divergent_branches),
    Rule("constant-addresses", memory.constant_divergence),
    Rule("atomic-contention", memory.same_address_atomics),
    Rule("integer-division", compute.integer_division),
    Rule("unfused-multiply-add", compute.unfused),
    Rule("register-spills", compute.spills),
    Rule("local-array", compute.local_arrays),
    Rule("low-occupancy", launches.low_occupancy),
    Rule("occupancy-cliff", launches.occupancy_cliff),
    Rule("block-size", launches.small_blocks),
    Rule("grid-too-small", launches.grid_size),
    Rule("tail", launches.tail),
    Rule("unequal-blocks", launches.unequal_blocks),
    Rule("bytes-in-flight", memory.bytes_in_flight),
    Rule("unneeded-barrier", compute.unneeded_barriers),
)

# Rules on the launch as a whole: those on a line come before them, for the line is the cause.
OF_THE_LAUNCH = {
    "low-occupancy", "occupancy-cliff", "block-size", "grid-too-small", "tail", "unequal-blocks",
    "bytes-in-flight",
}  # fmt: skip
# Advice that is left out if another rule names its cause.
EXPLAINED_BY = {
    "low-occupancy": {"occupancy-cliff", "register-spills"},
    "bytes-in-flight": {
        "grid-too-small", "low-occupancy", "occupancy-cliff", "unequal-blocks", "uncoalesced",
        "atomic-contention", "block-size",
    },
    "tail": {"grid-too-small", "unequal-blocks"},
    "unequal-blocks": {"grid-too-small"},
    "occupancy-cliff": {"block-size"},
}  # fmt: skip
