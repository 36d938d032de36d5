"""The fixture of all graders. They run through the tool alone (make check-NN-slug), which builds the submission."""
from __future__ import annotations

import os
from typing import List

import pytest

LIMIT = 45  # seconds for one test

if "SUBMISSION" in os.environ:
    from grading import Submission

    os.umask(0o022)  # the submission's user reads what is written for it

    @pytest.fixture(scope="session")
    def work() -> Submission:
        """What is graded."""
        return Submission()

    def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
        """A test of a grader may run a handful of the chapter's tests: it has a longer limit than one of these."""
        for item in items:
            if not item.get_closest_marker("time_limit"):
                item.add_marker(pytest.mark.time_limit(LIMIT))

else:
    collect_ignore_glob = ["test_*.py"]
