"""Arrays on the simulated GPU share one queue: threads, signal handlers and forks."""

import sys
import textwrap
import threading

import numpy as np
import pytest
from conftest import run_python

import gpuopt
from gpuopt import _core

LONG = textwrap.dedent("""
    import os, signal, threading, time
    import numpy as np, gpuopt
    long = gpuopt.asarray(np.ones(1 << 23, np.float32), device="sim")
    small = gpuopt.asarray(np.arange(3), device="sim")
    running = threading.Thread(target=lambda: gpuopt.reduce(long, variant=1))
""")


def test_the_first_array_of_a_preset_by_several_threads():
    count, made = 4, {}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for preset in [f"sim:{each['name']}" for each in _core.presets()]:
            barrier = threading.Barrier(count)

            def work(number, preset=preset, barrier=barrier):
                barrier.wait()
                made[preset, number] = gpuopt.asarray(np.arange(1000) + number, device=preset)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert len(made) == count * len(_core.presets())
    for (_, number), array in made.items():
        np.testing.assert_array_equal(array.get(), np.arange(1000) + number)


def test_signal_handler_that_would_deadlock_raises():
    code = """
        told = []
        def handler(*_):
            try:
                small.get()
            except RuntimeError as error:
                told.append(str(error))
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        total = gpuopt.reduce(long, variant=1)
        print(int(total.item()) == 1 << 23, told, small.get())
    """
    done = run_python(LONG + textwrap.dedent(code)).stdout
    assert done.startswith("True ['device: sim:h200 is executing a call of this thread")
    assert done.count("sim:h200") == 1 and done.endswith("[0 1 2]\n")


def test_waiting_for_the_queue_is_interruptible():
    code = """
        class Stop(Exception): pass
        def handler(*_): raise Stop
        signal.signal(signal.SIGALRM, handler)
        running.start()
        time.sleep(0.1)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        begin = time.perf_counter()
        try:
            small.get()
        except Stop:
            print(running.is_alive(), time.perf_counter() - begin)
        running.join()
        print(small.get())
    """
    alive, rest = run_python(LONG + textwrap.dedent(code)).stdout.split(maxsplit=1)
    seconds, values = rest.split(maxsplit=1)
    assert alive == "True" and float(seconds) < 0.5 and values == "[0 1 2]\n"


def test_fork_while_another_thread_holds_the_queue():
    code = """
        def child_says():
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                try:
                    os._exit(0 if small.get().tolist() == [0, 1, 2] else 1)
                except RuntimeError as error:
                    os._exit(2 if "when this process was forked" in str(error) else 3)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        before = child_says()
        running.start()
        time.sleep(0.1)
        during, alive = child_says(), running.is_alive()
        running.join()
        print(before, during, alive, child_says(), small.get())
    """
    assert run_python(LONG + textwrap.dedent(code)).stdout == "0 2 True 0 [0 1 2]\n"


def test_fork_while_threads_wait_for_the_queue():
    """A child works, or names the fork; it never waits for a thread that it does not have."""
    code = """
        import threading
        ends = threading.Event()
        def use():
            while not ends.is_set():
                gpuopt.reduce(small)
        threads = [threading.Thread(target=use) for _ in range(3)]
        for thread in threads:
            thread.start()
        found = set()
        for _ in range(12):
            time.sleep(0.01)
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    os._exit(0 if small.get().tolist() == [0, 1, 2] else 1)
                except RuntimeError as error:
                    os._exit(2 if "when this process was forked" in str(error) else 3)
            found.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        ends.set()
        for thread in threads:
            thread.join()
        print(found <= {0, 2}, found)
    """
    assert run_python(LONG + textwrap.dedent(code)).stdout.startswith("True")


@pytest.mark.parametrize("bytes_of_stack", [1 << 17])
def test_a_thread_with_a_small_stack(bytes_of_stack):
    code = f"""
        import threading
        import numpy as np, gpuopt
        threading.stack_size({bytes_of_stack})
        square, items = np.ones((600, 600), np.float32), np.ones(1 << 20)
        square[3] = 5
        def work():
            gpuopt.transpose(square, out=square, device="cpu")
            print(square[0, 3], gpuopt.reduce(items, device="cpu"),
                  gpuopt.reduce(square, axis=0, device="cpu").sum())
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """
    assert run_python(code).stdout == "5.0 1048576.0 362400.0\n"


def test_single_element_behaves_like_a_number():
    """It compares, formats and indexes like a number; larger arrays raise instead of comparing."""
    one = gpuopt.reduce(gpuopt.asarray(np.int64([1, 2]), "sim"))
    assert one == 3 and np.int64(3) == one and one == np.array([3]) and one == one
    assert 3 == one  # noqa: SIM300
    assert one != 4 and one in [3] and one not in [4]
    assert one != "3" and one is not None and one != None  # noqa: E711
    assert f"{one:.2f}|{one:>3}" == "3.00|  3" and f"{one}" == str(one)
    assert "abcd"[one] == "d" and {one: 1}[one] == 1
    real = gpuopt.asarray(np.float32(0.1), "sim")
    assert real == np.float32(0.1) and real != 0.1 and f"{real:.1f}" == "0.1"
    with pytest.raises(TypeError, match="only integers are an index, not float32"):
        "abcd"[real]
    several = gpuopt.asarray(np.arange(2), "sim")
    for compare in (lambda: several == 1, lambda: several == several, lambda: one == several,
                    lambda: several != np.arange(2)):  # fmt: skip
        with pytest.raises(TypeError, match=r"on sim:h200 is not compared there.*\.get\(\)"):
            compare()
    with pytest.raises(ValueError, match="only an array of one element is a number"):
        f"{several:.2f}"
