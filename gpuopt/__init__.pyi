"""Every public name of gpuopt and the module that it comes from; `__init__.py` reads this list."""

from gpuopt import experiments as experiments, models as models
from gpuopt._core import __version__ as __version__
from gpuopt.advice.explain import explain as explain
from gpuopt.advice.explanation import Advice as Advice, Explanation as Explanation
from gpuopt.advice.grade import Grade as Grade, grade as grade
from gpuopt.advice.order import Order as Order, shortest_order as shortest_order
from gpuopt.arrays.device_array import DeviceArray as DeviceArray, empty as empty
from gpuopt.catalog.devices import (
    Availability as Availability,
    Device as Device,
    available as available,
    devices as devices,
    show_config as show_config,
)
from gpuopt.catalog.rungs import Rung as Rung, rungs as rungs
from gpuopt.families.calls import (
    add as add,
    matmul as matmul,
    reduce as reduce,
    saxpy as saxpy,
    stencil1d as stencil1d,
    transpose as transpose,
)
from gpuopt.families.device_calls import asarray as asarray
from gpuopt.jit.cache import clear_cache as clear_cache
from gpuopt.jit.compiler import compile as compile
from gpuopt.jit.errors import CompileError as CompileError
from gpuopt.jit.numba_kernels import NumbaKernel as NumbaKernel, from_numba as from_numba
from gpuopt.measure.bench import Bench as Bench, bench as bench
from gpuopt.measure.case_study import CaseStudy as CaseStudy, matmul_case_study as matmul_case_study
from gpuopt.measure.ceilings import Ceiling as Ceiling
from gpuopt.measure.compare import Comparison as Comparison, compare as compare
from gpuopt.measure.ladder import ladder as ladder
from gpuopt.measure.ladder_result import Ladder as Ladder
from gpuopt.measure.race import VerificationError as VerificationError
from gpuopt.measure.report import Report as Report, report as report
from gpuopt.measure.roofline import (
    Bound as Bound,
    Point as Point,
    Roofline as Roofline,
    roofline as roofline,
)
from gpuopt.measure.sweep import Sweep as Sweep, sweep as sweep
from gpuopt.models import Occupancy as Occupancy, occupancy as occupancy
from gpuopt.observe.annotated import Diff as Diff, Source as Source
from gpuopt.observe.bounds import Bounds as Bounds
from gpuopt.observe.counters import Counters as Counters
from gpuopt.observe.difference import Difference as Difference
from gpuopt.observe.launches import Finding as Finding, Launch as Launch
from gpuopt.observe.predict import predict as predict
from gpuopt.observe.prediction import Prediction as Prediction
from gpuopt.observe.profile import Profile as Profile, check as check, profile as profile
from gpuopt.observe.source import diff as diff, source as source
from gpuopt.observe.timeline import Timeline as Timeline
from gpuopt.observe.trace import Trace as Trace, trace as trace
from gpuopt.ptx.buffers import Buffer as Buffer, copy_async as copy_async
from gpuopt.ptx.entries import Parameter as Parameter
from gpuopt.ptx.kernel import Kernel as Kernel, Resources as Resources
from gpuopt.ptx.module import Module as Module, load_ptx as load_ptx
from gpuopt.ptx.streams import Event as Event, Stream as Stream
from gpuopt.ptx.textures import Surface as Surface, Texture as Texture
from gpuopt.show.magic import load_ipython_extension as load_ipython_extension
from gpuopt.util.errors import (
    DeviceError as DeviceError,
    DeviceLost as DeviceLost,
    DeviceMemoryError as DeviceMemoryError,
    PTXError as PTXError,
    SimError as SimError,
    UnfitError as UnfitError,
)
from gpuopt.util.svg import Picture as Picture
