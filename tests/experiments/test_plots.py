"""Plots of experiments and sweeps show the numbers of the result."""

import pytest

import gpuopt
from gpuopt.measure.race import Timing
from gpuopt.measure.sweep import Size, Sweep, Trial

plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.skipif(not gpuopt.available("sim"), reason="no simulated GPU")


@pytest.fixture(autouse=True)
def _close():
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def ilp():
    return gpuopt.experiments.ilp((1, 3), (1, 2, 6), device="sim:g80")


@pytest.mark.parametrize("name", ["coalescing", "banks", "divergence", "double_literal", "texture"])
def test_bars_are_the_shares_of_the_rows(name):
    found = gpuopt.experiments.run(name, None)
    ax = found.plot()
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(
        [100 * (row.share or 0) for row in found.rows]
    )
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [row.name for row in found.rows]
    assert found.device.description in ax.figure.get_suptitle()


def test_bars_of_a_column():
    found = gpuopt.experiments.banks(device="sim:h200")
    ax = found.plot("conflicts")
    widths = dict(zip([row.name for row in found.rows], ax.patches, strict=True))
    assert widths["stride 32"].get_width() == found["stride 32"].values["conflicts"] > 0
    assert widths["stride 1"].get_width() == 0


def test_lines_over_a_parameter(ilp):
    ax = ilp.plot(x="warps", by=("chains", "fused"))
    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == {f"chains {n}, fused {f}" for n in (1, 3) for f in (True, False)}
    assert list(lines["chains 3, fused True"].get_xdata()) == [1, 2, 6]
    want = [100 * ilp[f"{w} warp{'s' * (w > 1)} x 3"].share for w in (1, 2, 6)]
    assert list(lines["chains 3, fused True"].get_ydata()) == pytest.approx(want)
    _, own = plt.subplots()
    assert ilp.plot("in_flight", x="warps", by=["chains", "fused"], ax=own) is own


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"column": "bananas"}, "column: ilp has no 'bananas'; it has 'warps', 'chains'"),
        ({"x": "bananas"}, "x: ilp has no 'bananas'"),
        ({"x": "warps", "by": "bananas"}, "by: ilp has no 'bananas'"),
        ({"by": "warps"}, "by: needs x="),
        ({"x": "warps", "by": "chains"}, "one line; add 'fused' to by="),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(ilp, how, words):
    with pytest.raises(ValueError, match=words):
        ilp.plot(**how)


def swept(trials):
    return Sweep(gpuopt.devices()[0], "reduce", "float32", [Size("sum of 8", trials)])


def test_sweep_is_ranked_and_the_library_s_choice_is_hatched():
    trials = [
        Trial(f"{at} rung", at, default=at == 39, timing=Timing([at * 1e-6] * 3))
        for at in range(40, 0, -1)
    ]
    ax = swept(trials).plot()
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([*range(1, 25), 39])
    assert [bar.get_hatch() for bar in ax.patches] == [""] * 24 + ["///"]
    assert ax.get_legend() is not None


def test_sweep_over_sizes_has_a_line_for_each_rung():
    """The last chart of decks D0 and D4: the best block of each rung."""
    sizes = [
        Size(
            f"sum of {n}",
            [
                Trial(rung, rung, block, timing=Timing([cost * n * block * 1e-12] * 3))
                for rung, cost in (("1 a", 8), ("7 b", 1))
                for block in (64, 128)
                if rung == "1 a" or n > 1 << 17
            ],
            n=n,
        )
        for n in (1 << 17, 1 << 18, 1 << 21)
    ]
    found = Sweep(gpuopt.devices()[0], "reduce", "int32", sizes)
    ax = found.plot()
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines["1 a"].get_xdata()) == [1 << 17, 1 << 18, 1 << 21]
    assert list(lines["1 a"].get_ydata()) == pytest.approx(
        [8 * 64e-6 * (1 << k) for k in (17, 18, 21)]
    )
    assert list(lines["7 b"].get_xdata()) == [1 << 18, 1 << 21]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert len(found.plot(0).patches) == 2  # one size alone: its choices
    again = gpuopt.Sweep.from_dict(found.to_dict())
    assert [size.n for size in again.sizes] == [size.n for size in sizes]


def test_sweep_without_trials_is_refused():
    with pytest.raises(ValueError, match="no choice takes sum of 8"):
        swept([]).plot()
    with pytest.raises(ValueError, match="size: 3 is not an index of the 1 sizes"):
        swept([]).plot(3)


def test_counted_ladder_shows_bank_conflicts():
    counted = gpuopt.ladder("reduce", 4096, device="sim")
    axes = counted.plot().figure.axes
    (conflicts,) = (ax for ax in axes if ax.get_xlabel() == "bank conflicts")
    assert [bar.get_width() for bar in conflicts.patches] == [
        row.counted.counters.bank_conflicts for row in counted.rows
    ]
    flat = gpuopt.ladder("add", 4096, device="sim").plot().figure.axes
    assert all(ax.get_xlabel() != "bank conflicts" for ax in flat)
