"""Streams, events and pinned memory on simulated GPUs: the order of a program's work."""

import gc

import numpy as np
import pytest

import gpuopt

ADD_ONE = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 x)
{
    .reg .b32 %i<2>; .reg .b64 %x<3>;
    ld.param.u64 %x0, [x];
    mov.u32 %i0, %tid.x;
    mul.wide.u32 %x1, %i0, 4;
    add.s64 %x2, %x0, %x1;
    ld.global.u32 %i1, [%x2];
    add.u32 %i1, %i1, 1;
    st.global.u32 [%x2], %i1;
    ret;
}
"""
DEVICES = ["sim", "sim:g80", "sim:k40"]
everywhere = pytest.mark.parametrize("device", DEVICES)


def made(device):
    module = gpuopt.load_ptx(ADD_ONE, device=device)
    return module, module["add_one"], gpuopt.Stream(device)


@everywhere
def test_copy_kernel_copy_runs_in_order_when_the_host_waits(device):
    module, add_one, stream = made(device)
    host, there = module.pinned(32, np.int32), module.empty(128)
    host[:] = np.arange(32)
    gpuopt.copy_async(there, host, stream)
    add_one(1, 32, there, stream=stream)
    add_one(1, 32, there, stream=stream)
    gpuopt.copy_async(host, there, stream)
    assert (host == np.arange(32)).all()  # nothing has waited
    assert repr(stream).endswith("4 pending>")
    stream.synchronize()
    assert (host == np.arange(32) + 2).all()
    copy = "copy of 128 bytes {} the device"
    assert stream.done == [
        copy.format("to"), "kernel add_one", "kernel add_one", copy.format("from")
    ]  # fmt: skip


@everywhere
def test_polling_ends_and_streams_take_turns(device):
    module, add_one, stream = made(device)
    other, there = gpuopt.Stream(device), module.copy(np.zeros(32, np.int32))
    for each in (stream, other, stream, other):
        add_one(1, 32, there, stream=each)
    polls = 0
    while not stream.query():
        polls += 1
    assert polls == 1 and other.query()
    assert (there.get(np.int32) == 4).all()


@everywhere
def test_event_orders_two_streams(device):
    module, add_one, first = made(device)
    second = gpuopt.Stream(device)
    host, there = module.pinned(32, np.int32), module.empty(128)
    host[:] = 5
    back = module.pinned(32, np.int32)
    gpuopt.copy_async(there, host, first)
    add_one(1, 32, there, stream=first)
    copied = first.record()
    second.wait(copied)
    gpuopt.copy_async(back, there, second)
    assert not copied.query()
    second.synchronize()
    assert copied.query() and first.query()
    assert (back == 6).all()


@everywhere
def test_missing_event_shows_as_old_data(device):
    module, add_one, first = made(device)
    second, there = gpuopt.Stream(device), module.copy(np.full(32, 5, np.int32))
    back = module.pinned(32, np.int32)
    add_one(1, 32, there, stream=first)
    gpuopt.copy_async(back, there, second)
    second.synchronize()  # nothing makes it wait for the kernel
    assert (back == 5).all()
    first.synchronize()
    assert (there.get(np.int32) == 6).all()


@everywhere
def test_event_waits_for_the_work_before_it_alone(device):
    module, add_one, stream = made(device)
    there = module.copy(np.zeros(32, np.int32))
    add_one(1, 32, there, stream=stream)
    event = stream.record()
    add_one(1, 32, there, stream=stream)
    event.synchronize()
    assert event.query() and stream.done == ["kernel add_one"]
    assert gpuopt.Event().query()  # never recorded
    assert stream.record(event) is event and not event.query()
    stream.synchronize()
    assert event.query()


@everywhere
def test_work_without_a_stream_comes_after_all_streams(device):
    module, add_one, stream = made(device)
    there = module.copy(np.zeros(32, np.int32))
    add_one(1, 32, there, stream=stream)
    add_one(1, 32, there)  # the default stream
    assert stream.query()
    add_one(1, 32, there, stream=stream)
    assert (there.get(np.int32) == 3).all()  # so does a blocking copy


@everywhere
def test_pinned_memory_is_read_late_and_pageable_memory_at_once(device):
    module, _, stream = made(device)
    pinned, pageable = module.pinned(32, np.int32), np.zeros(32, np.int32)
    pinned[:] = 0
    late, early = module.empty(128), module.empty(128)
    gpuopt.copy_async(late, pinned, stream)
    gpuopt.copy_async(early, pageable, stream)
    pinned[:] = pageable[:] = 9  # the fault: the first copy has not run
    assert (late.get(np.int32) == 9).all() and (early.get(np.int32) == 0).all()
    gpuopt.copy_async(pageable, late, stream)  # waits
    assert (pageable == 9).all()
    gpuopt.copy_async(early, late, stream)  # on the device
    assert (early.get(np.int32) == 9).all()


@everywhere
def test_pending_work_keeps_its_memory(device):
    module, add_one, stream = made(device)
    back = module.pinned(32, np.int32)
    there = module.copy(np.zeros(32, np.int32))
    add_one(1, 32, there, stream=stream)
    gpuopt.copy_async(back, there, stream)
    del there
    gc.collect()
    stream.synchronize()
    assert (back == 1).all()


@everywhere
def test_pending_work_runs_although_its_stream_is_gone(device):
    module, add_one, stream = made(device)
    there = module.copy(np.zeros(32, np.int32))
    add_one(1, 32, there, stream=stream)
    del stream
    gc.collect()
    assert (there.get(np.int32) == 1).all()


@everywhere
def test_failure_is_raised_where_the_host_waits(device):
    module, add_one, stream = made(device)
    there = module.copy(np.zeros(16, np.int32))
    add_one(1, 32, there, stream=stream)  # beyond the end
    add_one(1, 16, there, stream=stream)
    event = stream.record()
    with pytest.raises(gpuopt.SimError, match="out of bounds"):
        stream.synchronize()
    assert stream.query() and event.query() and stream.done == []
    add_one(1, 16, there, stream=stream)  # the stream goes on
    stream.synchronize()


def test_launches_are_counted_when_they_run():
    module, add_one, stream = made("sim")
    there = module.copy(np.zeros(32, np.int32))
    add_one(1, 32, there, stream=stream)
    with gpuopt.profile() as counted:
        stream.synchronize()
    assert [launch.kernel for launch in counted.launches] == ["add_one"]


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (ValueError, "device: cpu is not a simulated GPU", lambda m, k, s: gpuopt.Stream("cpu")),
        (TypeError, r"must be a gpuopt\.Stream", lambda m, k, s: k(1, 32, m.empty(128), stream=1)),
        (ValueError, "is on sim:g80", lambda m, k, s: k(
            1, 32, m.empty(128), stream=gpuopt.Stream("sim:g80"))),
        (TypeError, "array of NumPy", lambda m, k, s: k(1, 32, np.zeros(32, "i4"), stream=s)),
        (ValueError, "has 64 bytes, to has 128", lambda m, k, s: gpuopt.copy_async(
            m.empty(128), m.empty(64), s)),
        (TypeError, "at least one must be a Buffer", lambda m, k, s: gpuopt.copy_async(
            np.zeros(4), np.zeros(4), s)),
        (ValueError, "to: is read-only", lambda m, k, s: gpuopt.copy_async(
            np.broadcast_to(np.zeros((), "u1"), (1,)), m.empty(1), s)),
        (TypeError, r"event: must be a gpuopt\.Event", lambda m, k, s: s.wait(3)),
        (TypeError, r"event: must be a gpuopt\.Event", lambda m, k, s: s.record(3)),
    ],
)  # fmt: skip
def test_bad_arguments(error, text, call):
    with pytest.raises(error, match=text):
        call(*made("sim"))
