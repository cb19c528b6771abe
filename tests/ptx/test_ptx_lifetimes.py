"""gpuopt.load_ptx: modules and buffers that come and go; threads; signals."""

import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import psutil
import pytest
from conftest import run_python
from ptx_texts import ADD, HEADER, everywhere

import gpuopt


@everywhere
def test_modules_come_and_go(device):
    text = ADD + "//" + "x" * 4_000_000
    x = np.ones(100, np.float32)
    resident = []
    for turn in range(150):
        module = gpuopt.load_ptx(text, device)
        kernel, kept = module["add"], module.copy(np.zeros(500_000))
        del module
        kernel(1, 128, x, x, x, 0)
        with pytest.raises(ValueError):
            kernel(1, 512, x, x, x, 100)
        with pytest.raises(gpuopt.PTXError):
            gpuopt.load_ptx(HEADER + ",", device)
        del kernel
        assert kept.get(float).sum() == 0  # a Buffer keeps its device alive
        if turn in (10, 149):
            resident.append(psutil.Process().memory_info().rss)
    assert resident[1] - resident[0] < 400e6  # a leak of any kind is 4 MB a turn
    assert (x == 1).all()


def test_a_module_goes_with_its_last_reference():
    gc.disable()
    try:
        weak = weakref.ref(gpuopt.load_ptx(ADD, "sim"))
        assert weak() is None
    finally:
        gc.enable()


@everywhere
def test_threads_take_turns(device):
    module = gpuopt.load_ptx(ADD, device)
    failed = []

    def work(seed):
        try:
            for i in range(20):
                a = np.full(500, seed + i, np.float32)
                out = np.zeros(500, np.float32)
                buffer = module.copy(a)
                module["add"](4, 128, a, buffer, out, 500)
                assert (out == 2 * (seed + i)).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


LOOP = (
    HEADER + ".visible .entry spin()\n{\n\t.reg .b32 %r;\nL:\n\tadd.u32 %r, %r, 1;\n\tbra L;\n}\n"
)
LOOP = LOOP.replace("L:\n", "\tmov.u32 %r, 0;\nL:\n")


def test_ctrl_c_ends_a_kernel():
    module = gpuopt.load_ptx(LOOP, "sim")
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    start = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        module["spin"](4, 32)
    assert time.perf_counter() - start < 5
    timer.join()
    x = np.ones(4, np.float32)
    gpuopt.load_ptx(ADD, "sim")["add"](1, 4, x, x, x, 4)
    assert (x == 2).all()
    with pytest.raises(KeyError):
        module["other"]


def test_signal_handler_may_free_a_buffer_but_not_launch():
    module = gpuopt.load_ptx(LOOP, "sim")
    buffer = module.copy([1.0])

    class Stop(Exception):
        pass

    def stop(*_):
        nonlocal buffer
        buffer = None  # freed while the kernel runs: noted, and done after it
        with pytest.raises(RuntimeError, match="in use"):
            module["spin"](1, 32)
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Stop):
            module["spin"](1, 32)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert module.copy([2.0]).get(float)[0] == 2


def test_the_gil_is_free_while_a_kernel_runs():
    module = gpuopt.load_ptx(LOOP, "sim")
    turns = []
    done = threading.Event()

    def count():
        while not done.wait(0.01):
            turns.append(None)

    thread = threading.Thread(target=count)
    thread.start()
    timer = threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        module["spin"](1, 32)
    done.set()
    thread.join()
    timer.join()
    assert len(turns) > 10


def test_a_clean_exit_with_everything_open():
    run_python(
        f"""
        import numpy as np, gpuopt
        module = gpuopt.load_ptx({ADD!r}, "sim")
        kernel, buffer = module["add"], module.copy(np.ones(3, np.float32))
        kernel(1, 3, buffer, buffer, buffer, 3)
        cycle = [module]
        cycle.append(cycle)
        """
    )
