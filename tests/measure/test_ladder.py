"""A measured ladder: sentences from counters, JSON, tables, peers, plots."""

import json
import re
import subprocess
import sys
import time
import types
from dataclasses import replace

import numpy as np
import pytest
from conftest import KINDS, on

import gpuopt
from gpuopt.catalog.devices import preset_of
from gpuopt.cli import console
from gpuopt.families import cases
from gpuopt.measure import ceilings, ladder, peer_libraries, race
from gpuopt.observe.profile import Counters
from gpuopt.show import sentences

DEVICES = [on("cpu", "cpu", id="cpu"), on("cuda", "cuda", id="cuda")]


def counters(**values):
    return Counters([values.get(name, 0) for name in Counters()])


@pytest.fixture(autouse=True)
def small_copy(monkeypatch):
    monkeypatch.setitem(ladder.COPY_BYTES, "cpu", 1 << 20)


# --- verification


class Watched:
    """A bench that records its calls."""

    def __init__(self, bench, told):
        self.bench, self.told = bench, told

    def __getattr__(self, name):
        return getattr(self.bench, name)

    def run(self, variant, *more):
        self.told.append(("run", variant))
        return self.bench.run(variant, *more)

    def time(self, variant, *more, runs, cold):
        self.told.append(("time", variant, cold))
        return self.bench.time(variant, *more, runs=runs, cold=cold)


def watch(monkeypatch, right=None):
    """Record the calls of every case's bench; only the first `right` results are correct."""
    told, make = [], cases.make

    def made(*given, **more):
        case, seen = make(*given, **more), []
        bench, error = case.bench, case.error

        def checked(rung, got):
            seen.append(rung.name)
            wrong = right is not None and seen.count(rung.name) > right
            return "another" if wrong else error(rung, got)

        case.bench, case.error = (lambda device: Watched(bench(device), told)), checked
        return case

    monkeypatch.setattr(cases, "make", made)
    return told


@pytest.mark.parametrize("family", ["add", "reduce"])
def test_a_rung_is_verified_before_it_is_timed(family, monkeypatch):
    told = watch(monkeypatch, right=0)
    with pytest.raises(gpuopt.VerificationError, match="another"):
        gpuopt.ladder(family, 1000, device="cpu", rounds=1)
    assert told and not [each for each in told if each[0] == "time"]


@pytest.mark.parametrize("family", ["add", "reduce"])
def test_a_rung_is_verified_again_after_the_timing(family, monkeypatch):
    told = watch(monkeypatch, right=1)
    with pytest.raises(gpuopt.VerificationError, match="another"):
        gpuopt.ladder(family, 1000, device="cpu", rounds=1)
    assert "time" in [each[0] for each in told]


def test_a_counted_rung_is_verified(timed, monkeypatch):
    watch(monkeypatch, right=0)
    with pytest.raises(gpuopt.VerificationError, match="another"):
        gpuopt.ladder("add", 1000, device="sim")
    beside = gpuopt.Ladder.from_dict(timed.to_dict())
    with pytest.raises(gpuopt.VerificationError, match="another"):
        ladder._count_beside(beside, 0, False, lambda text, share: None)


def test_cold_samples_are_of_cold_runs(monkeypatch):
    told = watch(monkeypatch)
    gpuopt.ladder("add", 1000, device="cpu", rounds=7)
    for name in ("serial", "openmp", "simd"):
        assert told.count(("time", name, True)) == 7


def test_slow_work_has_few_samples():
    taken = []
    slow = race.Contender(lambda runs, cold: taken.append(runs) or 0.06, lambda: None)
    effort = race.Effort(11, 2e-3)
    assert race.race([slow], effort) == [slow]
    assert len(slow.warm.samples) == effort.slow_rounds
    assert taken == [1] * (
        2 + effort.slow_rounds
    )  # tried out twice: the first run may be disturbed


def test_a_copy_that_does_not_copy_gives_no_ceiling(wrong_bench):
    with pytest.raises(gpuopt.VerificationError, match="the copy on cpu gave a wrong result"):
        ceilings.copy_bandwidth(ladder.describe_device("cpu"), bytes_read=1 << 16)


@pytest.mark.parametrize("family", ["reduce", "stencil1d", "saxpy", "matmul"])
def test_a_nan_is_wrong(family):
    case = cases.make(family, 100, "float32")
    rung = next(rung for rung in gpuopt.rungs(family) if rung.name == "simd")
    right = case.call(rung, None, "cpu")
    assert case.error(rung, right) == ""
    if family == "reduce":
        assert case.error(rung, np.float32(np.nan))
    else:
        right.flat[7] = np.nan
        assert "number 7" in case.error(rung, right)


# --- sentences


def test_a_sentence_names_what_changed_most():
    before = counters(
        warp_instructions=10**6, thread_instructions=32 * 10**6, shared_load_conflicts=253_515
    )
    after = counters(
        warp_instructions=780_000, thread_instructions=32 * 780_000, shared_load_conflicts=3_634
    )
    assert sentences.what_changed(before, after) == (
        "bank conflicts 253,515 -> 3,634; warp instructions -22%"
    )


def test_a_sentence_leaves_out_small_changes_and_small_counters():
    before = counters(warp_instructions=10**6, barriers=100_000, divergent_branches=3)
    after = counters(warp_instructions=10**6 + 50_000, barriers=95_000, divergent_branches=90)
    assert sentences.what_changed(before, after) == "no counter changed by a tenth or more"


def test_a_sentence_names_the_ratios_of_the_largest_changes():
    before = counters(
        warp_instructions=10_000, thread_instructions=320_000,
        global_load_requests=1000, global_load_transactions=32_000,
    )  # fmt: skip
    after = counters(
        warp_instructions=10_000, thread_instructions=160_000,
        global_load_requests=1000, global_load_transactions=4_000,
    )  # fmt: skip
    assert sentences.what_changed(before, after) == (
        "sectors per load 32.0 -> 4.0; active lanes 100% -> 50%"
    )


def test_a_sentence_tells_no_ratio_of_next_to_nothing():
    """Four loads are nothing among a million instructions, however wide they are."""
    before = counters(warp_instructions=10**6, global_load_requests=4, global_load_sectors=4)
    after = counters(warp_instructions=10**6, global_load_requests=4, global_load_sectors=128)
    assert sentences.what_changed(before, after) == "no counter changed by a tenth or more"


def test_a_sentence_has_three_changes_at_most():
    before = counters(**{name: 10**6 for name in Counters()})
    after = counters(**{name: 10**6 + 10**5 * at for at, name in enumerate(Counters())})
    assert sentences.what_changed(before, after).count(";") == 2


def test_the_rungs_sentences_say_what_the_deck_says(counted):
    said = dict(zip([row.rung.name for row in counted.rows], counted.changes(), strict=True))
    conflicts = counted.rows[1].counted.counters.bank_conflicts
    assert conflicts > 1000
    assert f"bank conflicts 0 -> {conflicts:,}" in said["consecutive"]
    assert f"bank conflicts {conflicts:,} -> 0" in said["sequential"]
    assert "barriers" in said["last-warp"]
    for sentence in said.values():
        assert sentence in str(counted)


def test_the_ceiling_is_no_step():
    measured = gpuopt.ladder("transpose", 4096, device="sim")
    assert measured.rows[0].rung.ceiling
    assert re.match(r"[\d,]+ warp instructions, ", measured.changes()[0])
    assert re.match(r"[\d,]+ warp instructions, ", measured.changes()[1])


# --- JSON, tables


def test_json_and_back(timed, counted):
    for measured in (timed, counted, gpuopt.ladder("add", 512, device="cpu", rounds=2)):
        told = json.loads(json.dumps(measured.to_dict()))
        again = gpuopt.Ladder.from_dict(told)
        assert str(again) == str(measured)
        assert again.records() == measured.records()
        assert again._repr_html_() == measured._repr_html_()
        assert json.loads(json.dumps(again.to_dict())) == told
    refused = gpuopt.ladder("add", 4096, device="sim")
    assert refused.refused
    assert str(gpuopt.Ladder.from_dict(refused.to_dict())) == str(refused)


@pytest.mark.parametrize("family", ["reduce", "add"])
@pytest.mark.skipif(bool(KINDS["sim"]), reason="needs the simulated GPU")
def test_invalid_block_raises(family):
    with pytest.raises(ValueError, match="block: 4096 is not a block size of rung") as caught:
        gpuopt.ladder(family, 1000, block=4096, device="sim")
    assert not isinstance(caught.value, gpuopt.UnfitError)


@pytest.mark.parametrize("family", ["reduce", "transpose", "add", "matmul"])
@pytest.mark.skipif(bool(KINDS["sim"]), reason="needs the simulated GPU")
def test_a_rung_that_an_old_gpu_cannot_run_is_left_out(family):
    """A G80 has 16 KiB of shared memory and blocks of 512 threads."""
    old = gpuopt.ladder(family, 4096, device="sim:g80")
    assert old.rows and old.refused
    for rung, why in old.refused:
        assert rung.name in str(old) and re.search(
            "shared memory|threads per block|rung .threads.|a block of .* threads", why
        )


def test_old_file_without_devices_of_launches_is_read(counted):
    told = json.loads(json.dumps(counted.to_dict()))
    for row in told["rows"]:
        for launch in row["counted"]["launches"]:
            assert launch.pop("device") == "sim:h200"
    again = gpuopt.Ladder.from_dict(told)
    assert str(again) == str(counted) and again.rows[0].counted.launches[0].device == "sim"


@pytest.mark.parametrize("broken", [{}, [], {"kind": "roofline"}, {"kind": "ladder", "format": 0}])
def test_broken_json_is_refused(broken):
    with pytest.raises(ValueError, match=r"told: is not the ladder \(format 2\)"):
        gpuopt.Ladder.from_dict(broken)


def test_records_are_flat_and_alike(timed):
    records = timed.records()
    assert len(records) == len(timed.rows) + 1
    assert all(set(each) == set(records[0]) for each in records)
    assert records[1]["changed"] and records[1]["warm_us"] == pytest.approx(28)
    assert records[1]["step"] == pytest.approx(29 / 28)
    assert records[-1]["kind"] == "peer" and records[-1]["lesson"] is None
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(records)
    assert frame.set_index("name")["cold_us"]["cascading"] == pytest.approx(24)


def test_the_table_has_times_counters_deck_and_peers(timed):
    text = str(timed)
    for part in ("8,054", "30.04x", "CuPy 13", "JAX", "left out: not installed", "bank conflicts",
                 timed.counted_title, "of copy"):  # fmt: skip
        assert part in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_html_of_counts_shows_bank_conflicts():
    counted = gpuopt.ladder("reduce", 4096, device="sim")
    html = counted._repr_html_()
    head, row = re.findall(r"<tr>.*?</tr>", html)[:3:2]
    heads, cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", each) for each in (head, row))
    assert dict(zip(heads, cells, strict=True))["bank conflicts"] == (
        f"{counted.rows[1].counted.counters.bank_conflicts:,}"
    )
    assert len(heads) <= 10, "it is for a page of 1,200 pixels"


def test_html_is_escaped(timed):
    from html.parser import HTMLParser

    class Checker(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.rows, self.text = [], 0, ""

        def handle_starttag(self, tag, attributes):
            self.rows += tag == "tr"
            if tag != "br":
                self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

        def handle_data(self, data):
            self.text += data

    checker = Checker()
    checker.feed(timed._repr_html_())
    assert not checker.open and checker.rows == 3 * (1 + len(timed.rows)) + 2
    for row in timed.rows:
        assert row.rung.lesson in checker.text
    assert all(each in checker.text for each in timed.changes())
    assert "color:" not in timed._repr_html_(), "it takes the page's colours"


# --- measuring


@pytest.mark.parametrize("device", DEVICES)
def test_peers_are_measured_in_the_same_run(device, monkeypatch):
    monkeypatch.setattr(peer_libraries, "CACHES", 0)
    measured = gpuopt.ladder("matmul", 1024, device=device, peers=True, rounds=2)
    told = {peer.name for peer in measured.peers} | {
        name.split()[0] for name, _ in measured.peers_refused
    }
    assert told == set(peer_libraries.names("matmul")) == {"NumPy", "CuPy", "PyTorch", "JAX"}
    (numpy,) = (peer for peer in measured.peers if peer.name == "NumPy")
    assert len(numpy.warm.samples) == len(numpy.cold.samples) == 2 and numpy.warm.least > 0
    assert f"NumPy {np.__version__}" in str(measured)


def test_a_peer_whose_copies_a_cache_holds_has_no_cold_times(monkeypatch):
    monkeypatch.setattr(peer_libraries, "CACHES", 1 << 40)
    measured = gpuopt.ladder("add", 1000, device="cpu", peers=True, rounds=2)
    (numpy,) = (peer for peer in measured.peers if peer.name == "NumPy")
    assert len(numpy.warm.samples) == 2 and numpy.cold.samples == []
    assert all(len(row.cold.samples) == 2 for row in measured.rows), "ours have all the copies"
    (line,) = (line for line in str(measured).splitlines() if line.startswith("NumPy"))
    assert f"{numpy.warm.median * 1e6:,.1f}" in line and line.count("%") == 1
    told = measured.records()[-1]
    assert told["warm_us"] > 0 and told["cold_us"] is told["cold_gbs"] is told["of_copy"] is None
    again = gpuopt.Ladder.from_dict(json.loads(json.dumps(measured.to_dict())))
    assert again.peers == measured.peers and str(again) == str(measured)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    assert measured.plot().patches


def test_cold_calls_of_a_peer_take_turns_and_are_waited_for():
    told = []
    calls = [lambda k=k: told.append(k) for k in range(3)]
    peer = peer_libraries.Peer("it", "1", calls, np.asarray, lambda: told.append("wait"))
    peer.time(4, True)
    assert told == [0, "wait", 1, 2, 0, 1, "wait"]
    told.clear()
    peer.time(2, False)
    assert told == [0, "wait", 0, 0, "wait"]
    told.clear()
    peer.time(1, True)
    assert told == [2, "wait", 0, "wait"], "it goes on where the last cold one ended"


@pytest.mark.parametrize(
    ("size", "copies", "cold"),
    [(1 << 30, 1, True), (100 << 20, 2, True), (64 << 10, 4096, True), (4 << 10, 4096, False)],
)
def test_copies_for_cold_runs_are_more_than_a_cache(size, copies, cold):
    x = np.broadcast_to(np.int8(1), (size,))
    assert peer_libraries.copies_of((2.5, x)) == copies
    assert peer_libraries.can_be_cold((2.5, x), 60 << 20) == cold and peer_libraries.can_be_cold(
        (x,), 0
    )


def found_peers(family):
    """Return a ladder that has been asked for its peers, and those that gave the right result."""
    case = cases.make(family, 400, "float32")
    asked = gpuopt.Ladder(ladder.describe_device("cpu"), "sum", "float32", case.n, None, [])
    asked.family = family
    return asked, ladder._find_peers(asked, case, True)


@pytest.mark.parametrize("family", ["reduce", "transpose", "stencil1d", "add", "saxpy", "matmul"])
def test_numpy_does_every_family(family):
    asked, peers = found_peers(family)
    assert "NumPy" in {peer.name for peer in peers}, asked.peers_refused
    assert all(peer.time(2, cold) > 0 for peer in peers for cold in (False, True))


def test_a_peer_that_is_wrong_is_left_out(monkeypatch):
    real = peer_libraries._like_numpy

    def wrong(xp, task):
        call = real(xp, task)
        return lambda *given: call(*given) + 1

    monkeypatch.setattr(peer_libraries, "_like_numpy", wrong)
    found = gpuopt.ladder("add", 400, device="cpu", peers=True, rounds=1)
    assert "NumPy" not in {peer.name for peer in found.peers}
    assert any(name.startswith("NumPy") and "gave" in why for name, why in found.peers_refused)


@pytest.mark.parametrize(
    ("module", "library"), [("cupy", "CuPy"), ("torch", "PyTorch"), ("jax", "JAX")]
)
def test_a_peer_that_fails_is_left_out(module, library, monkeypatch):
    for name in (module, f"{module}.numpy"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))  # it has nothing
    gpu = 0 if module == "cupy" else None
    given = (np.ones(4, "f4"),) * 2
    peers, refused = peer_libraries.find(peer_libraries.Task("add"), given, gpu, ["NumPy", library])
    assert [peer.name for peer in peers] == ["NumPy"]
    ((name, why),) = refused
    assert name == library and "AttributeError" in why


@pytest.mark.parametrize("calls", [1, 2, 3, 20])
def test_a_peer_that_fails_while_it_is_timed_is_left_out(calls, monkeypatch):
    """After it was verified: when its race is planned (1, 2 and 3 calls), and in its midst."""
    real, made = peer_libraries.Peer.time, []

    def time(self, runs, cold):
        made.append(self.name)
        if self.name == "NumPy" and made.count("NumPy") > calls:
            raise MemoryError("no more")
        return real(self, runs, cold)

    monkeypatch.setattr(peer_libraries.Peer, "time", time)
    measured = gpuopt.ladder("add", 1000, device="cpu", peers=True, rounds=21)
    assert all(len(row.warm.samples) == 21 for row in measured.rows)
    assert "NumPy" not in {peer.name for peer in measured.peers}
    assert (f"NumPy {np.__version__}", "MemoryError: no more") in measured.peers_refused
    assert "left out: MemoryError: no more" in str(measured)


def test_a_peer_is_verified_again_after_the_timing(monkeypatch):
    real, results = peer_libraries.Peer.run, []

    def run(self):
        results.append(self.name)
        return real(self) + (results.count(self.name) > 1)

    monkeypatch.setattr(peer_libraries.Peer, "run", run)
    measured = gpuopt.ladder("add", 1000, device="cpu", peers=True, rounds=2)
    assert results.count("NumPy") == 2 and not measured.peers
    (why,) = (why for name, why in measured.peers_refused if name.startswith("NumPy"))
    assert why.startswith("gave ")


def test_times_without_a_timer_raise():
    with pytest.raises(ValueError, match=r"has no timer.* gives counters"):
        gpuopt.ladder("add", 100, device="sim", peers=True)
    with pytest.raises(ValueError, match="'reduce', 'transpose'"):
        gpuopt.ladder("fold")
    with pytest.raises(ValueError, match=r"family: \['reduce'\] is not a ladder"):
        gpuopt.ladder(["reduce"])
    with pytest.raises(ValueError, match=r"op: \['sum'\] is not an operation that is measured"):
        gpuopt.ladder("reduce", op=["sum"], device="sim")


def test_progress_goes_forward():
    told = []
    gpuopt.ladder("add", 100, device="cpu", rounds=2, progress=lambda *each: told.append(each))
    shares = [share for _, share in told]
    assert shares == sorted(shares) and shares[-1] <= 1 and all(text for text, _ in told)


def test_counters_beside_the_times():
    """As on a GPU: the same kernels, on fewer elements."""
    measured = gpuopt.ladder("reduce", 1 << 12, device="sim")
    for row in measured.rows:
        row.counted = None
    ladder._count_beside(measured, 0, False, lambda *_: None)
    assert measured.counted_title.startswith("sum of 4,096 int32, on a simulated H200")
    assert all(row.counted.counters.warp_instructions for row in measured.rows)


def test_a_ladder_of_which_every_rung_is_left_out_tells_why(monkeypatch):
    class Refuses:
        def run(self, variant, block):
            raise gpuopt.UnfitError("variant: rung 'x' takes none of these")

    make = cases.make

    def made(*given, **more):
        case = make(*given, **more)
        case.bench = lambda device: Refuses()
        return case

    monkeypatch.setattr(cases, "make", made)
    measured = gpuopt.ladder("add", 1000, device="cpu")
    assert not measured.rows and len(measured.refused) == 3
    text = str(measured)
    assert text.count("left out: variant: rung 'x' takes none of these") == 3
    assert measured.title in text and "simulated" not in text
    assert measured.records() == measured.changes() == [] and "<table" in measured._repr_html_()
    assert str(gpuopt.Ladder.from_dict(json.loads(json.dumps(measured.to_dict())))) == text


def test_a_ladder_with_nothing_but_its_ceiling_is_shown(timed):
    alone = gpuopt.Ladder.from_dict(timed.to_dict())
    row = alone.rows[0]
    alone.rows = [replace(row, rung=replace(row.rung, ceiling=True))]
    assert row.rung.lesson in str(alone) and "all steps" not in str(alone)


# --- plots, progress, the command line


@pytest.mark.parametrize("case", ["timed", "counted"])
def test_the_plot_has_every_rung_and_no_text_is_cut(case, request):
    pytest.importorskip("matplotlib").use("agg")
    measured = request.getfixturevalue(case)
    axes = measured.plot()
    figure = axes.figure
    figure.canvas.draw()
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert [name.split(" ", 1)[1] for name in names][: len(measured.rows)] == [
        row.rung.name for row in measured.rows
    ]
    renderer = figure.canvas.get_renderer()
    for each in [*axes.get_yticklabels(), *axes.texts, figure._suptitle]:
        box = each.get_window_extent(renderer)
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width, each.get_text()
    import matplotlib.pyplot as plt

    plt.close(figure)


def test_a_ladder_without_rungs_has_no_plot(counted):
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt

    empty = gpuopt.Ladder.from_dict(counted.to_dict() | {"rows": []})
    before = plt.get_fignums()
    with pytest.raises(ValueError, match="ladder: has no rung that was measured"):
        empty.plot()
    assert plt.get_fignums() == before


def test_without_matplotlib_the_extra_is_named(monkeypatch, timed):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'gpuopt[plot]'")):
        timed.plot()


class Terminal:
    def __init__(self, terminal):
        self.terminal, self.text = terminal, ""

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.mark.parametrize("terminal", [True, False])
def test_bar_appears_after_a_moment_on_terminals_only(terminal, monkeypatch):
    monkeypatch.setattr(console, "FIRST", 0.05)
    monkeypatch.setattr(console, "EVERY", 0.05)
    stream = Terminal(terminal)
    with console.bar(stream, "first step") as progress:
        time.sleep(0.3)
        progress("measuring", 0.5)
        time.sleep(0.3)
        progress.line("a result")
        time.sleep(0.3)
    assert ("measuring" in stream.text) == ("first step" in stream.text) == terminal
    assert (" 50%" in stream.text) == ("s left" in stream.text) == terminal
    if terminal:  # the line has the bar's place to itself, and nothing is left at the end
        assert "\ra result\n" in stream.text and stream.text.endswith(" \r")
    else:
        assert stream.text == "a result\n"


def test_bar_appears_only_for_longer_work():
    stream = Terminal(True)
    with console.bar(stream) as progress:
        progress("quick", 0.5)
    assert "quick" not in stream.text


def run(*arguments):
    command = [sys.executable, "-m", "gpuopt", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_command_line(tmp_path):
    small = ("ladder", "add", "--n", "1000", "--device", "sim")
    plot = tmp_path / "ladder.svg"
    done = run(*small, "--json", "-o", str(plot))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert gpuopt.Ladder.from_dict(json.loads(done.stdout)).n == 1000
    assert "<svg" in plot.read_text()
    (tmp_path / "a.json").write_text(done.stdout)
    done = run("compare", str(tmp_path / "a.json"), str(tmp_path / "a.json"))
    assert done.returncode == 0 and "no change" in done.stdout
    done = run("compare", str(tmp_path / "a.json"), str(tmp_path / "none.json"))
    assert done.returncode == 1 and "none.json" in done.stderr and "Traceback" not in done.stderr


# --- predicted times beside measured ones


def test_predictions_stand_beside_measured_times():
    measured = gpuopt.ladder("add", 1 << 12, device="sim:h100")
    measured.device = replace(measured.device, kind="cuda", description="NVIDIA H100 80GB HBM3")
    measured.copy_bandwidth = 1e12
    for row in measured.rows:
        row.warm = row.cold = race.Timing([2 * row.predicted] * 3)
    offs = {each["predicted_off"] for each in measured.records()}
    assert all(each == pytest.approx(-0.5) for each in offs)
    table = str(measured)
    assert "off" in table and table.count("-50%") == len(measured.rows)
    assert "measured," in measured._repr_html_()
    names = [each.get_text() for each in measured.plot().get_legend().get_texts()]
    assert "predicted, warm" in names


def test_a_gpus_preset_follows_from_its_name_and_its_multiprocessors():
    card = gpuopt.ladder("add", 32, device="sim").device
    assert preset_of(card) == "sim:h200"
    for preset, name, count in (
        ("sim:h100", "NVIDIA H100 80GB HBM3", 132),
        ("sim:h100pcie", "NVIDIA H100 PCIe", 114),
        ("sim:a100", "NVIDIA A100-SXM4-80GB", 108),
        ("sim:a10", "NVIDIA A10", 72),
        ("sim:k40", "Tesla K40m", 15),
        ("", "NVIDIA RTX 6000 Ada Generation", 142),
    ):
        real = replace(card, name="cuda:0", kind="cuda", description=name, multiprocessors=count)
        assert preset_of(real) == preset


def test_predictions_of_an_unknown_device_are_refused():
    with pytest.raises(ValueError, match="predictions: no preset describes"):
        gpuopt.ladder("add", 32, device="cpu", predictions=True)


@pytest.mark.skipif(bool(KINDS["cuda"]), reason=KINDS["cuda"])
def test_a_gpus_ladder_predicts_its_own_size():
    if not preset_of(gpuopt.devices()[0]):
        pytest.skip("needs a GPU that a preset describes")
    measured = gpuopt.ladder("transpose", 1 << 18, device="cuda", rounds=3, predictions=True)
    assert all(row.predicted for row in measured.rows)
    assert "512" in measured.counted_title


# --- the bars, on an H200


@pytest.mark.skipif(bool(KINDS["cuda"]), reason=KINDS["cuda"])
@pytest.mark.speed
@pytest.mark.parametrize("n", [1 << 22, 1 << 25])
def test_two_runs_agree(n):
    first, second = (
        gpuopt.ladder("reduce", n, device="cuda", counters=False, seed=seed) for seed in (0, 1)
    )
    for one, other in zip(first.rows, second.rows, strict=True):
        for mode in ("warm", "cold"):
            a, b = getattr(one, mode).median, getattr(other, mode).median
            assert b == pytest.approx(a, rel=0.03), (one.rung.name, mode)


@pytest.mark.skipif(bool(KINDS["cuda"]), reason=KINDS["cuda"])
def test_a_gpus_ladder_has_times_and_counters():
    measured = gpuopt.ladder("transpose", 1 << 20, device="cuda", rounds=3)
    assert measured.timed and measured.counted_title
    assert all(row.warm.samples and row.counted for row in measured.rows)
    assert all(measured.changes())
