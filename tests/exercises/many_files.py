"""What graders look at where the server is many files: the symbols of the submission's object files."""
from __future__ import annotations

from typing import Dict, List

from cases.files import Symbols, promised, symbols
from grading import Submission

COMPILE = 'cc -std=gnu11 -O0 -w -I"$0" -c "$0"/src/*.c && nm -A *.o'


def objects(work: Submission) -> Dict[str, Symbols]:
    """What each file of src/ defines and needs, by its name."""
    return symbols(work.run_ok(["sh", "-c", COMPILE, work.path], seconds=30).out)


def order(work: Submission) -> List[str]:
    """The files, as server.h has them from above."""
    return list(promised(work.source("src/server.h")))
