# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: tests marked `waylay` hold to budgets of synchronizations.

    @pytest.mark.waylay("--range=step", "--skip=1", "--max-syncs=0")
    def test_step():
        ...

Put this file beside your tests and say `pytest_plugins = ["waylay_pytest"]` in conftest.py. With
`pytest --waylay` each marked test runs once more, alone, in a process of its own under `waylay run`,
and fails when a budget is exceeded or when the recording allows no verdict. The arguments of the mark
are options of `waylay check`; `--budgets=FILE` keeps them in one place.
"""
import subprocess
import sys

import pytest


def pytest_addoption(parser):
    parser.addoption("--waylay", action="store_true", help="hold marked tests to their budgets")


def pytest_configure(config):
    config.addinivalue_line("markers", "waylay(*options): budgets, as options of `waylay check`")


class BudgetItem(pytest.Item):
    """One marked test under `waylay run`."""

    def __init__(self, *, test, **arguments):
        super().__init__(**arguments)
        self.test = test

    def runtest(self):
        options = self.test.get_closest_marker("waylay").args
        done = subprocess.run(
            ["waylay", "run", "-q", "--no-export", *options, "--",
             sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", self.test.nodeid],
            cwd=self.config.rootpath, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stdout[-2000:] + done.stderr)

    def repr_failure(self, excinfo):
        return str(excinfo.value)

    def reportinfo(self):
        return self.path, None, self.name


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--waylay"):
        return
    marked = [item for item in items if item.get_closest_marker("waylay")]
    items.extend(BudgetItem.from_parent(item.parent, name=item.name + " [waylay]", test=item)
                 for item in marked)
