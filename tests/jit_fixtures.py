"""Fixtures of the tests of `gpuopt.compile`: a compiler, and a cache of their own."""

import pytest

from gpuopt.jit import compiler, find


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory):
    """Keep results in a folder of this session's: not in the user's."""
    patch = pytest.MonkeyPatch()
    patch.setenv("GPUOPT_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
    yield
    patch.undo()


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """Begin with nothing kept, on disk or in this process."""
    monkeypatch.setenv("GPUOPT_CACHE_DIR", str(tmp_path / "cache"))
    compiler._made.clear()
    return tmp_path / "cache" / "compiled"


@pytest.fixture
def nvrtc():
    """Skip the test where there is no NVRTC."""
    try:
        found = find.find()
    except ImportError as error:
        pytest.skip(str(error))
    if found.kind != "nvrtc":
        pytest.skip("there is no NVRTC; pip install 'gpuopt[jit]'")
    return found


@pytest.fixture
def bundling(nvrtc):
    """Skip the test where NVRTC brings no headers."""
    if not nvrtc.bundles:
        pytest.skip(f"NVRTC {nvrtc.version} brings no headers; pip install 'gpuopt[jit]'")
    return nvrtc
