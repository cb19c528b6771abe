"""Fixtures of the tests of `gpuopt.compile`: a compiler, and a cache of their own."""

import pytest

from gpuopt.jit import compiler, find


@pytest.fixture(autouse=True)
def own_cache(request, tmp_path, monkeypatch, tmp_path_factory):
    """Keep results in a folder of this session's; a test may ask for an empty one."""
    if "empty_cache" in request.fixturenames:
        monkeypatch.setenv("GPUOPT_CACHE_DIR", str(tmp_path / "cache"))
    elif not hasattr(own_cache, "folder"):
        own_cache.folder = tmp_path_factory.mktemp("cache")
    if "empty_cache" not in request.fixturenames:
        monkeypatch.setenv("GPUOPT_CACHE_DIR", str(own_cache.folder))


@pytest.fixture
def empty_cache(tmp_path):
    """Begin with nothing kept, on disk or in this process."""
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
