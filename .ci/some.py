"""A pytest plugin: of a test's many parameters, run some, evenly spread.

A sanitizer sees the code of each dtype and rung in several tests; the suite without one has all.
"""

import pytest

MOST = 12  # of one test


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the others."""
    groups = {}
    for item in items:
        if not item.get_closest_marker("skip"):
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for group in groups.values():
        count = min(MOST, len(group))
        kept.update(group[k * len(group) // count] for k in range(count))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
