"""Grading a class, the handout for students, the autograder."""
from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path
from typing import Dict, List

import pytest

ROOT = Path(__file__).resolve().parents[1]
LEARN = ROOT / "tests" / "learn"
import classroom
import copies
import decoys
import exercises
import faults
import grade
import hunts
import pack
import pristine
import website_check

from harness.settings import limit

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(60)]
NAME = "04-buffered-reads"
EARLY = "03-who"  # in the handout


def run(*words: object, cwd: Path = ROOT, **env: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command; both streams are its stdout."""
    kept = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "WORKBOOK_BUILD", "WORKBOOK_PREBUILT")}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**kept, **env}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit(50),
    )  # fmt: skip


def gradebook(*words: object) -> "subprocess.CompletedProcess[str]":
    return run(sys.executable, LEARN / "grade.py", *words)


def hand_in(folder: Path, which: str) -> Path:
    exercises.write_tree(exercises.find(NAME).tree(which), folder)
    return folder


# ---- one submission ----


def test_a_good_submission_is_graded(tmp_path: Path) -> None:
    hand_in(tmp_path / "ann" / NAME, "solution")
    done = gradebook("one", tmp_path / "ann", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stdout
    assert "In all 10 of 10 points" in done.stdout
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["score"] == 10 and results["visibility"] == "visible"
    assert [set(test) for test in results["tests"]] == [
        {"name", "score", "max_score", "status", "output", "visibility"}
    ] * 4
    suite = ElementTree.parse(tmp_path / "out" / "results.xml").getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (NAME, "4", "0")


def test_a_bad_submission_gets_its_lessons(tmp_path: Path) -> None:
    folder = hand_in(tmp_path / "bob", "starter")
    (folder / "wire.h").write_text("#error not the student's to change\n")
    with open(folder / "server.c", "a") as source:
        source.write("// I have looked at it.\n")
    done = gradebook("one", folder, "--out", tmp_path / "out", "--exercise", NAME)
    assert done.returncode == 0, done.stdout
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    failed = [test for test in results["tests"] if test["status"] == "failed"]
    assert failed and all(test["score"] == 0 and "expected" in test["output"] for test in failed)
    assert 0 < results["score"] < 10, "wire.h was restored, so it builds, and some of it is right"
    assert "Traceback" not in done.stdout


def test_what_does_not_build_says_so(tmp_path: Path) -> None:
    folder = hand_in(tmp_path / "eve" / NAME, "starter")
    (folder / "server.c").write_text("int main(void) { return 0 }\n")
    assert gradebook("one", tmp_path / "eve", "--out", tmp_path / "out").returncode == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["score"] == 0 and "expected ‘;’" in results["output"].replace("';'", "‘;’")


def test_what_is_nobodys_work_is_noted(tmp_path: Path) -> None:
    """The starter as it was, and a folder without the file to hand in."""
    hand_in(tmp_path / "class" / "ann" / NAME, "starter")
    (tmp_path / "class" / "bob" / NAME).mkdir(parents=True)
    (tmp_path / "class" / "bob" / NAME / "notes.txt").write_text("I have tried.\n")
    assert gradebook("all", tmp_path / "class", "--out", tmp_path / "out", "-j", 2).returncode == 0
    with open(tmp_path / "out" / "grades.csv", newline="") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    assert (rows["ann"][NAME], rows["ann"]["note"]) == ("0", f"{NAME}: nothing was changed in the starter")
    assert (rows["bob"][NAME], rows["bob"]["note"]) == ("0", f"{NAME}: was not handed in")
    assert "it was not handed in, that is server.c" in (tmp_path / "out" / "bob" / "transcript.txt").read_text()


@pytest.mark.parametrize(
    "words, says",
    [
        ([], "holds no exercise. It needs a folder for each"),
        (["--exercise", "04-buffered-read"], "did you mean 04-buffered-reads?"),
    ],
)
def test_what_cannot_be_graded(tmp_path: Path, words: List[str], says: str) -> None:
    done = gradebook("one", tmp_path, "--out", tmp_path / "out", *words)
    assert done.returncode == 1 and says in done.stdout and done.stdout.count("\n") == 1


# ---- a class ----


def test_a_class_is_graded(tmp_path: Path) -> None:
    hand_in(tmp_path / "class" / "ann" / NAME, "solution")
    hand_in(tmp_path / "class" / "bob" / NAME, "wrong/" + exercises.find(NAME).wrong_names()[0])
    (tmp_path / "class" / "cat").mkdir()
    done = gradebook("all", tmp_path / "class", "--out", tmp_path / "out", "-j", 2)
    assert done.returncode == 0, done.stdout
    with open(tmp_path / "out" / "grades.csv", newline="") as file:
        rows: Dict[str, Dict[str, str]] = {row["submission"]: row for row in csv.DictReader(file)}
    assert rows["ann"][NAME] == rows["ann"]["total"] == "10"
    assert 0 <= int(rows["bob"][NAME]) < 10
    assert (rows["ann"]["maximum"], rows["ann"]["percent"]) == ("10", "100.0")
    assert rows["cat"]["total"] == "" and "was not graded" in rows["cat"]["note"]
    assert re.search(rf"1 of 2 +{NAME}: ", (tmp_path / "out" / "summary.txt").read_text())
    assert (tmp_path / "out" / "bob" / "transcript.txt").read_text().count("tried ") >= 1


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    names = ["=1+1", "+1", "-1", "@now", "\tx", "ann"]
    grade.write_grades(tmp_path / "grades.csv", [grade.Row(name, name, {NAME: 3}, 4, []) for name in names], [NAME])
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert [row[0] for row in rows] == [row[-1] for row in rows] == ["'=1+1", "'+1", "'-1", "'@now", "'\tx", "ann"]
    assert rows[0][1:5] == ["3", "4", "75.0", "3"]


def test_a_grader_that_cannot_work_gives_no_score(tmp_path: Path) -> None:
    """Pytest is missing: neither a 0 nor a score of an earlier time."""
    hand_in(tmp_path / "ann" / NAME, "solution")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text("{}")
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "pytest.py").write_text("raise ModuleNotFoundError('No module named pytest')\n")
    words = [sys.executable, LEARN / "grade.py", "one", tmp_path / "ann", "--out", tmp_path / "out"]
    done = run(*words, PYTHONPATH=str(tmp_path / "without"))
    assert done.returncode == grade.NO_SCORE and "No module named pytest" in done.stdout.splitlines()[-1], done.stdout
    assert "no score, the grader itself is broken (this is for the instructor to mend)" in done.stdout
    assert not (tmp_path / "out" / "results.json").exists()


def test_the_made_up_class_has_everything() -> None:
    """Each kind of student is there, and a wrong grade of any is noticed."""
    everybody = list(classroom.students(20))
    assert {student.does for student in everybody} == {"right", "wrong", "untouched", "nothing", *classroom.HARM}
    for student in everybody:
        assert student.expected("9999", "") and student.expected("-1", ""), student


# ---- private hunts ----

FUNCTION = """\
// Looks at the end.
static int f(const struct item *node, size_t n) {
    int err = 0;
    size_t end = 1;
    if (!node) {
        return -1;
    }
    if (node->size < n && n > 2) {
        end += 3;
    }
    for (size_t i = 0; i < end; i++) {
        err = take(node->err, i);
    }
    return err;
}
"""


def test_decoys_change_nothing_but_how_it_is_written() -> None:
    old = FUNCTION.splitlines()
    found = [
        [line.strip() for line, was in zip(new.splitlines(), old) if line != was] for new in decoys.rewrites(FUNCTION)
    ]
    assert found == [
        ["if (n > node->size && n > 2) {"], ["if (node == NULL) {"], ["end = end + 3;"],
        ["for (size_t i = 0; i < end; i += 1) {"],
        ["size_t end = 1;", "int err = 0;"],
        ["int reason = 0;", "reason = take(node->err, i);", "return reason;"],
        ["for (size_t k = 0; k < end; k++) {", "err = take(node->err, k);"],
    ], "the name `end` stands in the comment"  # fmt: skip


@pytest.fixture(scope="module")
def hunted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of three with hunts in chapter 07: one mends hers, one hands in the chapter's file, one nothing."""
    top = tmp_path_factory.mktemp("hunts")
    (top / "class.csv").write_text("Student,Mail\nann,a@x.org\nbob,b@x.org\ncat,c@x.org\n")
    words = ["--chapter", "7", "--secret", top / "secret", "--out", top / "out"]
    done = run(sys.executable, LEARN / "hunts.py", "make", top / "class.csv", *words)
    assert done.returncode == 0, done.stdout
    return top


def key_of(top: Path) -> Dict[str, str]:
    with open(top / "out" / "key.csv", newline="") as file:
        return {row["student"]: row["fault"] for row in csv.DictReader(file)}


def test_each_student_has_a_hunt(hunted: Path) -> None:
    key = key_of(hunted)
    assert list(key) == ["ann", "bob", "cat"] and set(key.values()) <= set(faults.names())
    assert (hunted / "secret").stat().st_mode & 0o77 == 0
    book = hunts.book("07")
    for student, fault in key.items():
        given = exercises.read_folder(hunted / "out" / "students" / student / "hunt")
        right = exercises.read_folder(hunted / "out" / "key" / student)
        altered = [name for name in book if given[name] != right[name]]
        assert altered and all(right[name] != book[name] for name in altered), "the fault's file has decoys as well"
        assert faults.read(fault).symptom in given["README.md"] and fault not in "".join(given.values())


def test_a_hunt_follows_from_the_name_and_the_secret() -> None:
    known = hunts.eligible(["07", "08"])
    first = {name: hunts.in_order(b"one", name, known)[0] for name in map(str, range(40))}
    assert first == {name: hunts.in_order(b"one", name, known)[0] for name in first}
    assert first != {name: hunts.in_order(b"two", name, known)[0] for name in first}
    assert len(set(first.values())) > 8
    fewer = [fault for fault in known if fault != first["0"]]
    moved = [name for name in first if hunts.in_order(b"one", name, fewer)[0] != first[name]]
    assert moved == [name for name in first if first[name] == first["0"]]


def test_a_hunt_must_show_its_fault(tmp_path: Path) -> None:
    """What the tests do not see, or what they see without the fault, is no hunt."""
    fault = faults.read("03-nul-on-the-wire")
    made = hunts.variant(fault, random.Random(1))
    kept = hunts.Kept(tmp_path)
    assert hunts.prove(fault, made, kept) == ""
    assert "is not seen" in hunts.prove(fault, made._replace(given=made.right), kept)
    assert "without its fault it has" in hunts.prove(fault, made._replace(right=made.given), kept)


def test_hunts_are_graded(hunted: Path) -> None:
    """Mended: all points. The chapter's file with a line more: none, and a note. As it was given: none."""
    work = hunted / "class"
    exercises.write_tree(exercises.read_folder(hunted / "out" / "key" / "ann"), work / "ann" / "hunt")
    book = hunts.book("07")
    book["server.c"] = book["server.c"].replace("int main(", "static int mine;\n\nint main(").replace("//", "///")
    exercises.write_tree(book, work / "bob" / "my" / "hunt")
    shutil.copytree(hunted / "out" / "students" / "cat", work / "cat")
    done = run(sys.executable, LEARN / "hunts.py", "grade", work, "--out", hunted / "out")
    assert done.returncode == 0, done.stdout
    with open(hunted / "out" / "grades" / "grades.csv", newline="") as file:
        rows = {row["submission"]: row for row in csv.DictReader(file)}
    assert [rows[name]["hunt"] for name in ("ann", "bob", "cat")] == ["10", "0", "0"], done.stdout
    assert rows["ann"]["note"] == "" and rows["bob"]["note"].startswith(grade.BOOK)
    assert rows["cat"]["note"] == "nothing was changed in the starter"
    assert "SERVER=my/hunt/server" in (hunted / "out" / "grades" / "cat" / "transcript.txt").read_text()


# ---- packages ----


@pytest.fixture(scope="module")
def handout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The handout of chapter 03, unpacked."""
    done = run(sys.executable, LEARN / "pack.py", "handout", "--site", "3")
    assert done.returncode == 0 and "chapters 03," in done.stdout, done.stdout
    folder = tmp_path_factory.mktemp("handout")
    with tarfile.open(ROOT / "build" / "handout.tar.gz") as archive:
        archive.extractall(folder)
    return folder / "workbook"


def test_the_handout_gives_nothing_away(handout: Path) -> None:
    paths = [str(path.relative_to(handout)) for path in handout.rglob("*")]
    bad = [p for p in paths if re.search(r"solution|wrong/|key\.md|broken|teaching|\.fault$", p)]
    later = [p for p in paths if re.search(r"\b(0[4-9]|[1-9]\d)[-_/.]", p) and "figures" not in p]
    assert bad == [] and later == []
    assert "avl.h" not in {path.name for path in (handout / "common").iterdir()}


def test_the_handout_has_pages_for_a_browser(handout: Path, tmp_path: Path) -> None:
    """They are whole, give nothing away, and are those that make site makes of what was handed out."""
    site = handout / "site"
    assert website_check.problems(site) == []
    said = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.html"))
    assert "chapters/03/exercises" in said and not re.search(r'href="(?!https?:)[^"#]*(solution|broken|teaching)', said)
    assert run("make", "site", f"OUT={tmp_path / 'again'}", cwd=handout).returncode == 0
    names = {path.relative_to(site) for path in site.rglob("*.*")}
    assert names == {path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*.*")}


def test_the_handout_passes_its_tests(handout: Path) -> None:
    done = run("make", "test", cwd=handout)
    assert done.returncode == 0, done.stdout
    assert " 0 failed" in done.stdout.splitlines()[-1]


def test_the_handout_has_exercises_to_solve(handout: Path) -> None:
    n = exercises.find(EARLY).points
    assert run("make", f"start-{EARLY}", cwd=handout).returncode == 0
    exercises.write_tree(exercises.find(EARLY).tree("solution"), handout / "my" / EARLY)
    done = run("make", f"check-{EARLY}", cwd=handout)
    assert done.returncode == 0 and f"{n} of {n} points" in done.stdout, done.stdout
    done = run("make", f"solution-{EARLY}", "INSIST=yes", cwd=handout)
    assert done.returncode != 0 and "the solution is not in this copy" in done.stdout
    done = run("make", "grade", "SUBMISSION=.", cwd=handout)
    assert done.returncode == 0 and f"In all {n} of {n} points" in done.stdout, done.stdout


def test_the_handout_offers_what_it_can_do(handout: Path) -> None:
    offered = set(re.findall(r"make ([a-z]+(?:-[a-z]+)*)(?![-\w])", run("make", "help", cwd=handout).stdout))
    assert {"grade", "exercises", "clean"} <= offered
    for gone in ("handout", "gradescope", "hunts", "class-check", "broken", "book-check"):
        assert gone not in offered and "there is no such target" in run("make", gone, cwd=handout).stdout


def test_experiments_are_noticed_where_there_is_no_git(handout: Path) -> None:
    """Neither a new starter nor a check carries what somebody tried in common/."""
    header = handout / "common" / "base.h"
    text = header.read_text()
    header.write_text(text + "#define TRIED 1\n")
    try:
        (handout / "my" / EARLY).mkdir(parents=True, exist_ok=True)
        (handout / "my" / EARLY / "server.c").touch()
        for words in (["grade", "SUBMISSION=my"], ["reset-03-hunt-nul"]):
            done = run("make", *words, cwd=handout)
            assert done.returncode != 0 and "common/base.h is not as it was handed out" in done.stdout, done.stdout
            assert "tar xzf handout.tar.gz --strip-components=1 workbook/common/base.h" in done.stdout
    finally:
        header.write_text(text)
    assert run("make", "reset-03-hunt-nul", cwd=handout).returncode == 0


def test_experiments_are_left_out_where_there_is_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "workbook"
    for name in ("common", "chapters/04", "tests/exercises"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("server", "client"))
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]):
        assert run("git", *words, cwd=root).returncode == 0
    before = exercises.find(NAME, root).starter()
    for path in (root / "common" / "base.h", root / "chapters" / "04" / "server.c"):
        path.write_text(path.read_text() + "int tried;\n")
    assert "int tried;" in exercises.find(NAME, root).starter()["server.c"], "who maintains it sees every change"
    monkeypatch.setenv(pristine.VARIABLE, "1")
    pristine.changed.cache_clear()
    assert exercises.find(NAME, root).starter() == before
    packed = pack.read(iter(["common/base.h", "chapters/04/server.c"]), lambda path: True, root)
    assert not any(b"int tried;" in data for data in packed.values())


def test_vectors_are_kept_for_later_chapters() -> None:
    """Those of chapter 09 hold for chapter 10 as well."""
    paths = set(pack.pack(["10"]))
    assert "tests/vectors/09-strings.json" in paths and "tests/vectors/07-strings.json" not in paths


def test_the_guide_names_what_is_there() -> None:
    """Every exercise and every wrong server that the instructor's guide speaks of."""
    guide = (ROOT / "book" / "teaching" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:0[3-9]|[1-9]\d)-[a-z]+(?:-[a-z0-9]+)*", guide)) - {"07-hunt-yours"}
    chapters = {path.stem for path in (ROOT / "book").glob("*.md")}
    there = {e.name for e in exercises.all_exercises()} | {
        path.stem for path in (ROOT / "tests" / "broken").glob("*.fault")
    }
    assert len(named) > 40 and named - there - chapters == set()


def test_links_to_what_is_left_out_become_text() -> None:
    there = {"README.md", "book", "book/03.md"}
    text = (
        "a [link](book/03.md#x), a [gone](book/04.md), [out](https://x.org)\n| [04](book/04.md) | row |\n| [03](book) |"
        " row |"
    )
    assert pack.without_dead_links("README.md", text, there) == (
        "a [link](book/03.md#x), a gone, [out](https://x.org)\n| [03](book) | row |"
    )


def test_the_autograder_grades(tmp_path: Path) -> None:
    """run_autograder as Gradescope calls it, with its folder elsewhere."""
    assert run(sys.executable, LEARN / "pack.py", "gradescope", NAME).returncode == 0
    source = tmp_path / "source"
    with zipfile.ZipFile(ROOT / "build" / "autograder.zip") as archive:
        names = archive.namelist()
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
        archive.extractall(source)
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert not [name for name in names if re.search(r"exercises/[^/]+/(solution|wrong|key)|tests/broken", name)]
    tmp_path.chmod(0o755)
    script = (source / "run_autograder").read_text().replace("/autograder/", f"{tmp_path}/")
    (source / "run_autograder").write_text(script.replace("/usr/bin/python3", sys.executable))
    hand_in(tmp_path / "submission", "solution")
    done = run("sh", source / "run_autograder")
    assert json.loads((tmp_path / "results" / "results.json").read_text())["score"] == 10, done.stdout
    for path in (tmp_path / "submission").iterdir():
        path.unlink()
    (tmp_path / "submission").rmdir()
    run("sh", source / "run_autograder")
    nothing = json.loads((tmp_path / "results" / "results.json").read_text())
    assert nothing["score"] == 0 and "there is no such folder" in nothing["output"]


@pytest.mark.parametrize("chapter", [path.name for path in sorted((ROOT / "chapters").glob("[01]?"))])
def test_a_private_hunt_runs_what_it_promises(chapter: str) -> None:
    """The first tests of the chapter, its vectors and its sessions."""
    words = ["-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-k", hunt_basics()]
    done = run(sys.executable, *words, f"tests/test_{chapter}.py")
    for what in ("[basics-", "::test_vector[", "::test_session["):
        assert what in done.stdout or (what == "::test_vector[" and chapter == "03"), done.stdout


def hunt_basics() -> str:
    (line,) = re.findall(r"^BASICS = \"(.*)\"$", (ROOT / "tests" / "exercises" / "hunt.py").read_text(), re.M)
    return line


# ---- public hunts ----

HUNTS = [exercise for exercise in exercises.all_exercises() if "-hunt-" in exercise.name]


@pytest.mark.parametrize("hunt", HUNTS, ids=lambda hunt: hunt.name)
def test_a_diff_with_the_chapter_shows_more_than_the_fault(hunt: exercises.Exercise) -> None:
    """What is handed in for a hunt is known where it is the chapter's file; what was mended is not."""
    stage, starter, solution = hunt.stage(), hunt.starter(), hunt.tree("solution")
    differs = [name for name in stage if stage[name] != starter[name]]
    places = sum(copies.functions(stage[name], name)[function] != text
                 for name in differs for function, text in copies.functions(starter[name], name).items())  # fmt: skip
    assert places >= 4, f"{hunt.name}: {places} functions are otherwise"
    for tree in (starter, solution, *(hunt.tree(f"wrong/{name}") for name in hunt.wrong_names())):
        assert copies.of_the_chapter(tree, hunt) == []
    mended = [name for name in differs if solution[name] != starter[name]]
    alone = [name for name in mended if solution[name] == stage[name]]  # no room for a decoy beside the fault
    assert copies.of_the_chapter({**solution, **{name: stage[name] for name in mended}}, hunt) == sorted(
        set(mended) - set(alone)
    )


def test_the_chapters_file_has_no_points_for_a_hunt(tmp_path: Path) -> None:
    hunt = exercises.find("07-hunt-prefix")
    exercises.write_tree(hunt.stage(), tmp_path / "copied" / hunt.name)
    done = grade.grade_exercise(hunt, tmp_path / "copied" / hunt.name)
    assert done.result.score == 0 and f"{grade.BOOK}, so nothing is counted: server.c" in done.result.remarks


# ---- tests that come later ----

LATER = """\
from grading import Submission, points
from harness import Server

DUE = "{due}"


@points(3, "what nobody has been told")
def test_later(work: Submission) -> None:
    \"""A key of one byte.\"""
    with Server(7) as server, server.connect() as conn:
        assert conn.ask("get", "k").status == 2
"""


def test_tests_that_count_from_a_date_on(tmp_path: Path) -> None:
    """Before it, nothing of them is to be seen; after it, they are graded and add their points. No student has them."""
    book = tmp_path / "workbook"  # a copy: what grades must not change while others grade
    for name in ("chapters", "common", "tests"):
        shutil.copytree(ROOT / name, book / name, ignore=shutil.ignore_patterns("__pycache__"))
    hunt = exercises.find("07-hunt-prefix")
    exercises.write_tree(hunt.tree("solution"), tmp_path / hunt.name)
    later = book / hunt.later.relative_to(ROOT)
    later.parent.mkdir(exist_ok=True)
    for due, most in (("2999-12-01 18:00", 8), ("2020-12-01", 11)):
        later.write_text(LATER.format(due=due))
        words = [sys.executable, book / "tests/learn/grade.py", "one", tmp_path / hunt.name, "--out", tmp_path / "out"]
        done = run(*words)
        results = json.loads((tmp_path / "out" / "results.json").read_text())
        titles = [test["name"] for test in results["tests"]]
        assert results["score"] == sum(test["max_score"] for test in results["tests"]) == most, done.stdout
        assert any("nobody has been told" in title for title in titles) == (most == 11)
    later.write_text(LATER.format(due="soon"))
    assert "has no line like DUE" in run(*words).stdout
    assert pack.NOT_FOR_STUDENTS.match(str(hunt.later.relative_to(ROOT)))
