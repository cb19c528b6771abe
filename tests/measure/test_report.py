"""The report: its page in a real browser, its numbers, its mistakes."""

import asyncio
import base64
import html
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import predicted_from_ptx, run_python

import gpuopt
from gpuopt.families import cases
from gpuopt.measure import compare, report
from gpuopt.show import plots as plots_module

# The test's own browser, if there is one: the suite needs none.
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
VIEWS = {"desktop": (1280, 900), "phone": (375, 740)}
MEASURE = """(() => {
    const page = document.documentElement;
    const inBox = (e) => e.closest('.scroll, pre, svg');
    const wide = [...document.body.querySelectorAll('*')].filter(
        (e) => !inBox(e) && e.getBoundingClientRect().right > page.clientWidth + 1);
    const colours = getComputedStyle(document.body);
    const cut = [...document.querySelectorAll('.plot svg')].filter((e) => {
        const all = e.getBoundingClientRect();
        return [...e.querySelectorAll('g[id*="text_"]')].some((t) => {
            const box = t.getBoundingClientRect();
            return box.width && (box.left < all.left - 1 || box.right > all.right + 1 ||
                box.top < all.top - 1 || box.bottom > all.bottom + 1);
        });
    });
    return {
        overflow: page.scrollWidth - page.clientWidth,
        wide: wide.map((e) => e.outerHTML.slice(0, 80)),
        cut: cut.map((e) => e.getAttribute('aria-label')),
        background: colours.backgroundColor,
        ink: colours.color,
        boxes: [...document.querySelectorAll('.scroll')].filter(
            (e) => e.scrollWidth > e.clientWidth).length,
        drawn: [...document.querySelectorAll('figure svg')].map(
            (e) => e.getBoundingClientRect().height),
    };
})()"""


class Tab:
    """A page of a headless browser, spoken to by its debugging protocol."""

    def __init__(self, socket):
        self.socket, self.asked, self.events = socket, 0, []

    async def ask(self, method, **parameters):
        self.asked += 1
        told = {"id": self.asked, "method": method, "params": parameters}
        await self.socket.write_message(json.dumps(told))
        while True:
            message = json.loads(await self.socket.read_message())
            if message.get("id") == self.asked:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    async def open(self, url):
        await self.ask("Page.navigate", url=url)
        while (await self.evaluate("document.readyState")) != "complete":
            await asyncio.sleep(0.05)

    async def evaluate(self, expression):
        return (await self.ask("Runtime.evaluate", expression=expression, returnByValue=True))[
            "result"
        ]["value"]


async def look(port_file, url, screenshots=None):
    """Return what the page measures in each view and theme, and every event of the browser."""
    from tornado.httpclient import AsyncHTTPClient
    from tornado.websocket import websocket_connect

    until = time.monotonic() + 60
    while not (port_file.exists() and port_file.read_text().count("\n")):
        assert time.monotonic() < until, "the browser did not start"
        await asyncio.sleep(0.05)
    port = port_file.read_text().split()[0]
    told = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/list")
    target = next(each for each in json.loads(told.body) if each["type"] == "page")
    tab = Tab(await websocket_connect(target["webSocketDebuggerUrl"], max_message_size=1 << 27))
    for domain in ("Page", "Network", "Runtime", "Log"):
        await tab.ask(f"{domain}.enable")
    found = {}
    for view, (width, height) in VIEWS.items():
        for theme in ("light", "dark"):
            await tab.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                          deviceScaleFactor=1, mobile=view == "phone")  # fmt: skip
            await tab.ask("Emulation.setEmulatedMedia",
                          features=[{"name": "prefers-color-scheme", "value": theme}])  # fmt: skip
            await tab.open(url)
            found[view, theme] = await tab.evaluate(MEASURE)
            if screenshots:
                size = (await tab.ask("Page.getLayoutMetrics"))["cssContentSize"]
                clip = {"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1}
                shot = await tab.ask(
                    "Page.captureScreenshot", captureBeyondViewport=True, clip=clip
                )
                Path(screenshots, f"{view}-{theme}.png").write_bytes(base64.b64decode(shot["data"]))
    printed = await tab.ask("Page.printToPDF")
    return found, tab.events, len(printed["data"])


def browse(folder, page, screenshots=None):
    arguments = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                 "--disable-dev-shm-usage", "--remote-debugging-port=0",
                 f"--user-data-dir={folder}/browser", "about:blank"]  # fmt: skip
    browser = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port_file = Path(folder, "browser", "DevToolsActivePort")
        return asyncio.run(look(port_file, Path(page).as_uri(), screenshots))
    finally:
        browser.terminate()
        browser.wait(30)


@pytest.fixture(scope="module")
def made():
    with predicted_from_ptx():
        return gpuopt.report("sim:h200", quick=True)


def test_the_page_has_everything_and_needs_nothing(made):
    page = made.html()
    assert "H200" in page and gpuopt.__version__ in page
    for family in report.FAMILIES:
        assert f'<section id="{family}">' in page
    for measured in made.ladders:
        assert measured.rows
        for row, changed in zip(measured.rows, measured.changes(), strict=True):
            counters = row.counted.counters
            assert f"<td>{counters.warp_instructions:,}</td>" in page
            assert changed and row.rung.lesson in page.replace("&#x27;", "'").replace("&gt;", ">")
    for ceiling in made.roofline.ceilings:
        assert f"<td>{ceiling.name}</td>" in page
    assert page.count('<figure class="plot">') == 1 + len(made.ladders)
    assert page.count('<svg xmlns="http://www.w3.org/2000/svg" class="gpuopt"') == sum(
        map(len, report.PICTURES.values())
    )
    # Nothing is fetched: no address outside of the page but those of XML's name spaces.
    addresses = set(re.findall(r"https?://[^\"'<> )]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in page and "<script" not in page
    ids = re.findall(r'\bid="([^"]+)"', re.sub(r'id="gpuopt-hatch"', "", page))
    assert len(ids) == len(set(ids)), "an id that is there twice"
    for wanted in re.findall(r"(?:href=\"|url\()#([^\")]+)", page):
        assert wanted in ids or wanted == "gpuopt-hatch"
    # matplotlib's colours are the page's.
    plots = "".join(re.findall(r'<figure class="plot">.*?</figure>', page, re.S))
    assert "var(--ink)" in plots and not re.search(r"(fill|stroke): #", plots)


@pytest.mark.skipif(not BROWSER, reason="no chromium is installed")
def test_the_page_in_a_browser(made, tmp_path):
    pytest.importorskip("tornado")
    page = tmp_path / "report.html"
    made.save(page)
    found, events, printed = browse(tmp_path, page)
    assert len(found) == 4 and printed > 10_000
    for (view, theme), told in found.items():
        assert told["overflow"] <= 0 and not told["wide"], (view, told["wide"])
        assert not told["cut"], (view, told["cut"])
        assert all(height > 50 for height in told["drawn"]) and len(told["drawn"]) >= 10
        light = [sum(map(int, re.findall(r"\d+", told[key])[:3])) for key in ("background", "ink")]
        assert (light[0] > light[1] + 400) == (theme == "light")
        assert (light[0] < light[1] - 400) == (theme == "dark")
    assert found["phone", "light"]["boxes"] > len(made.ladders), "tables scroll inside a box"
    asked = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert {each for each in asked if not each.startswith("data:")} == {page.as_uri()}
    for event in events:
        assert event["method"] not in (
            "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"
        ), event  # fmt: skip


def test_its_numbers_survive_and_compare(made, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(made.to_dict()))
    found = compare.load(path)
    assert [each.rate for each in found.roofs[0].ceilings] == [
        each.rate for each in made.roofline.ceilings
    ]
    assert [each.family for each in found.ladders] == list(report.FAMILIES)
    told = str(compare.compare(path, path))
    assert told.endswith("no change")
    for each in made.ladders:
        assert f"{len(each.rows)} of {len(each.rows)} without a change" in told
    assert str(made).count("warp") >= len(made.ladders)


def test_the_cpu_is_timed_and_the_kernels_counted(monkeypatch):
    smaller = cases.FAMILIES["saxpy"]._replace(quick=(1 << 16, 1 << 16, 1024))
    monkeypatch.setitem(cases.FAMILIES, "saxpy", smaller)
    made = gpuopt.report("cpu", quick=True, families=["saxpy"])
    assert [(each.device.kind, each.timed) for each in made.ladders] == [
        ("cpu", True), ("sim", False)
    ]  # fmt: skip
    assert {point.name.split()[0] for point in made.roofline.points} == {"saxpy"}
    page = made.html()
    assert "bound by memory" in page and "A plain copy moves" in page
    assert made._repr_html_().startswith("<iframe srcdoc=") and "<html" not in made._repr_html_()


@pytest.mark.skipif(not gpuopt.available("cuda"), reason="no GPU")
def test_a_gpu_is_timed_and_counted():
    made = gpuopt.report("cuda", quick=True, families=["reduce", "transpose"])
    for measured in made.ladders:
        assert measured.timed and all(row.warm.median > 0 for row in measured.rows)
        assert any(row.counted for row in measured.rows)
    page = made.html()
    assert "Counters of " in page and "A plain copy moves" in page


def test_without_matplotlib_the_page_says_so(made, monkeypatch):
    def missing():
        raise ImportError("plotting needs matplotlib: pip install 'gpuopt[plot]'")

    monkeypatch.setattr(plots_module, "pyplot", missing)
    page = made.html()
    assert page.count("pip install &#x27;gpuopt[plot]&#x27;") == 1 + len(made.ladders)
    assert '<figure class="plot">' not in page and "<td>" in page


def test_without_matplotlib_installed_the_page_names_the_extra(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    page = made.html()
    assert page.count("pip install &#x27;gpuopt[plot]&#x27;") == 1 + len(made.ladders)


def test_no_figure_stays_open(made, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    mine = plt.figure()
    before = plt.get_fignums()
    made.html()
    assert plt.get_fignums() == before
    for owner, name in ((Figure, "savefig"), (plots_module, "bars")):  # drawn, and half drawn

        def fails(*arguments, **more):
            raise OSError("no more")

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fails)
            with pytest.raises(OSError, match="no more"):
                made.html()
        assert plt.get_fignums() == before
    plt.close(mine)


def test_a_page_is_made_by_any_of_matplotlibs_backends(tmp_path):
    pytest.importorskip("matplotlib")
    run_python(f"""
        import gpuopt
        made = gpuopt.report("sim:m2090", quick=True, families=["saxpy"])
        made.save({str(tmp_path / "report.html")!r})
    """, MPLBACKEND="svg")  # fmt: skip
    assert (tmp_path / "report.html").read_text().count('<figure class="plot">') == 2


def test_invalid_arguments_raise(made, tmp_path):
    with pytest.raises(ValueError, match="'reduce', 'transpose'"):
        gpuopt.report("sim", families=["fold"])
    for families in ("reduce", 5, [["reduce"]]):
        with pytest.raises(TypeError, match="families: must be a list of names"):
            gpuopt.report("sim", families=families)
    with pytest.raises(ValueError, match=r"must end in \.html"):
        made.save(tmp_path / "report.pdf")
    with pytest.raises(OSError, match="no folder"):
        made.save(tmp_path / "none" / "report.html")


def test_the_command(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "gpuopt", "report", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)

    done = run("--device", "sim:m2090", "--quick", "--family", "saxpy")
    assert done.returncode == 0 and done.stdout == "wrote report.html\n", done.stderr
    assert done.stderr == "" and "Tesla M2090" in (tmp_path / "report.html").read_text()
    done = run("--device", "sim", "--quick", "--family", "add", "--json", "-o", "r.html")
    assert json.loads(done.stdout)["kind"] == "report", done.stderr
    folder = tmp_path / "folder.html"
    folder.mkdir()
    for arguments, text in (
        (["-o", "report.pdf"], "must end in .html"),
        (["-o", "none/report.html"], "no folder"),
        (["-o", str(folder)], "is a folder"),
        (["--family", "fold"], "reduce"),
        (["--device", "abacus"], "abacus"),
    ):
        done = run(*arguments)
        assert done.returncode != 0 and done.stdout == ""
        assert text in done.stderr and "Traceback" not in done.stderr


def test_a_report_opens_with_what_was_found_and_has_own_kernels():
    text = (
        ".version 8.0 .target sm_75 .address_size 64 .visible .entry own(.param .u64 x) {\n"
        ".reg .b64 %x<3>; .reg .f32 %f<2>; ld.param.u64 %x0, [x]; ld.global.f32 %f0, [%x0];\n"
        "st.global.f32 [%x0+4], %f0; ret; }"
    )
    kernel = gpuopt.load_ptx(text, device="sim")["own"]
    profile = gpuopt.profile(kernel, 1, 1, np.ones(2, np.float32))
    made = gpuopt.report("sim:g80", quick=True, families=["saxpy"], profiles=[profile])
    first, step, limit = made.summary()
    assert "simulated GeForce 8800 GTX (G80)" in first and "saxpy" in first
    rows = [row for row in made.ladders[0].rows if not row.rung.ceiling]
    counts = [row.counted.counters.warp_instructions for row in rows]
    assert f"{counts[0] / min(counts):.1f} times fewer warp instructions" in step
    assert "operations per byte" in limit
    page = made.html()
    begin = page.index("<main>")
    assert (
        begin
        < page.index(html.escape(first))
        < page.index("Warm: the same data")
        < page.index('id="device"')
    )
    own = page[page.index('<section id="own">') :]
    assert "st.global.f32 [%x0+4], %f0" in html.unescape(re.sub("<[^>]*>", "", own))
    assert "least times on H200" in own and "launches on sim:h200" in own
    with pytest.raises(TypeError, match="profiles: must be profiles, not int"):
        gpuopt.report("sim", quick=True, families=["saxpy"], profiles=[3])
    assert (
        "gpuopt.report(profiles=[profile])"
        in gpuopt.report("sim:g80", quick=True, families=["saxpy"]).html()
    )  # how to add one


def test_small_rates_keep_their_digits():
    page = gpuopt.ladder("reduce", 1000, device="cpu", rounds=1)
    rates = re.findall(r"^(?:serial|openmp|simd) .*", str(page), re.M)
    assert rates and not any(re.search(r"  0  ", each) for each in rates)
