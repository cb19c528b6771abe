"""Names of the results that tables and plots read.

Their classes are in `gpuopt.measure` and `gpuopt.experiments`, which show themselves through this
package; it therefore imports none of them. Their docstrings list the attributes.
"""

from typing import Any, TypeAlias

Experiment: TypeAlias = Any  # gpuopt.experiments._result.Experiment
SweepSize: TypeAlias = Any  # gpuopt.measure.sweep.Size
Ladder: TypeAlias = Any  # gpuopt.measure.ladder_result.Ladder
LadderRow: TypeAlias = Any  # gpuopt.measure.ladder_result.LadderRow
Roofline: TypeAlias = Any  # gpuopt.measure.roofline.Roofline
Point: TypeAlias = Any  # gpuopt.measure.roofline.Point
Bench: TypeAlias = Any  # gpuopt.measure.bench.Bench
BenchRow: TypeAlias = Any  # gpuopt.measure.bench.BenchRow
Bar: TypeAlias = Any  # gpuopt.measure.workloads.Bar
