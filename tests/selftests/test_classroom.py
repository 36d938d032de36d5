"""Grading a class, the handout for students, the autograder."""
from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEARN = ROOT / "tests" / "learn"
import exercises
import faults
import grade
import hunts
import layout
import pack
import pristine
import website_check
from changeform import Tree

from harness.settings import limit

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(120)]
NAME = "04-buffered-reads"
EARLY = "03-who"  # in the handout


def run(*words: object, cwd: Path = ROOT, **env: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command; both streams are its stdout."""
    kept = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "WORKBOOK_BUILD", "WORKBOOK_PREBUILT")}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**kept, **env}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit(100),
    )  # fmt: skip


def gradebook(*words: object) -> "subprocess.CompletedProcess[str]":
    return run(sys.executable, LEARN / "grade.py", *words)


# ---- grading ----


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


TREES = {which: exercises.find(NAME).tree(which) for which in ("starter", "solution", "wrong/length-on-its-own")}
LOOKED_AT = {"server.c": TREES["starter"]["server.c"] + "// Why?\n", "wire.h": "#error not the student's to change\n"}
CLASS: "Dict[str, Tuple[Optional[Tree], str, str]]" = {  # what is handed in, its points, the note
    "right": (TREES["solution"], "10", ""),
    "wrong": (TREES["wrong/length-on-its-own"], "4", ""),
    "looked at": (LOOKED_AT, "4", ""),
    "untouched": (TREES["starter"], "0", f"{NAME}: nothing was changed in the starter"),
    "does not build": ({"server.c": "int main(void) { return 0 }\n"}, "0", f"{NAME}: does not build"),
    "crashes": ({"server.c": "int main(void) { __builtin_trap(); }\n"}, "0", ""),
    "notes alone": ({"notes.txt": "I have tried.\n"}, "0", f"{NAME}: was not handed in"),
    "nothing": (None, "", "was not graded: "),
}


def test_a_class_is_graded(tmp_path: Path) -> None:
    """Who does harm has no points, and harms nobody else."""
    for name, (tree, _, _) in CLASS.items():
        (tmp_path / "class" / name).mkdir(parents=True)
        if tree:
            exercises.write_tree(tree, tmp_path / "class" / name / NAME)
    out = tmp_path / "out"
    done = gradebook("all", tmp_path / "class", "--out", out, "-j", 2)
    assert done.returncode == 0, done.stdout
    with open(out / "grades.csv", newline="") as file:
        rows: Dict[str, Dict[str, str]] = {row["submission"]: row for row in csv.DictReader(file)}
    for name, (_, points, note) in CLASS.items():
        row = rows[name]
        assert (row[NAME], row["note"][: len(note) or None]) == (points, note), row
        said = [row["total"], row["maximum"], row["percent"]]
        assert said == ([points, "10", f"{int(points) * 10}.0"] if points else ["", "", ""])
    assert re.search(rf"6 of 7 +{NAME}: one by one", (out / "summary.txt").read_text())
    results = {name: json.loads((out / name / "results.json").read_text()) for name in CLASS if name != "nothing"}
    assert "expected ‘;’" in results["does not build"]["output"].replace("';'", "‘;’")
    for test in results["looked at"]["tests"]:
        assert (test["score"] == 0 and "expected" in test["output"]) == (test["status"] == "failed"), test
    transcripts = {name: (out / name / "transcript.txt").read_text() for name in CLASS}
    assert "tried  " in transcripts["wrong"] and not any("Traceback" in text for text in transcripts.values())
    assert "it was not handed in, that is server.c" in transcripts["notes alone"]


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    names = ["=1+1", "+1", "-1", "@now", "\tx", "ann"]
    grade.write_grades(tmp_path / "grades.csv", [grade.Row(name, name, {NAME: 3}, 4, []) for name in names], [NAME])
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert [row[0] for row in rows] == [row[-1] for row in rows] == ["'=1+1", "'+1", "'-1", "'@now", "'\tx", "ann"]
    assert rows[0][1:5] == ["3", "4", "75.0", "3"]


def test_a_grader_that_cannot_work_gives_no_score(tmp_path: Path) -> None:
    """Pytest is missing: neither a 0 nor a score of an earlier time."""
    exercises.write_tree(TREES["solution"], tmp_path / "ann" / NAME)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text("{}")
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "pytest.py").write_text("raise ModuleNotFoundError('No module named pytest')\n")
    words = [sys.executable, LEARN / "grade.py", "one", tmp_path / "ann", "--out", tmp_path / "out"]
    done = run(*words, PYTHONPATH=str(tmp_path / "without"))
    assert done.returncode == grade.NO_SCORE and "No module named pytest" in done.stdout.splitlines()[-1], done.stdout
    assert "no score, the grader itself is broken (this is for the instructor to mend)" in done.stdout
    assert not (tmp_path / "out" / "results.json").exists()


# ---- private hunts ----


@pytest.fixture(scope="module")
def hunted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of three with hunts in chapter 07."""
    top = tmp_path_factory.mktemp("hunts")
    (top / "class.csv").write_text("Student,Mail\nann,a@x.org\nbob,b@x.org\ncat,c@x.org\n")
    words = ["--chapter", "7", "--secret", top / "secret", "--out", top / "out"]
    done = run(sys.executable, LEARN / "hunts.py", "make", top / "class.csv", *words)
    assert done.returncode == 0, done.stdout
    return top


def test_each_student_has_a_hunt(hunted: Path) -> None:
    assert (hunted / "secret").stat().st_mode & 0o77 == (hunted / "out").stat().st_mode & 0o77 == 0
    with open(hunted / "out" / "key.csv", newline="") as file:
        key = {row["student"]: row["fault"] for row in csv.DictReader(file)}
    assert list(key) == ["ann", "bob", "cat"]
    for student, fault in key.items():
        given = exercises.read_folder(hunted / "out" / "students" / student / "hunt")
        assert faults.read(fault).symptom in given["README.md"] and fault not in "".join(given.values())


@pytest.mark.parametrize(
    "roster, why",
    [("Name\n\n", "it has no names"), ("ann\nbob\nann\n", "'ann' is there twice"), ("../ann\n", "no name of a folder")],
)
def test_a_roster_that_is_wrong(tmp_path: Path, roster: str, why: str) -> None:
    (tmp_path / "class.csv").write_text(roster)
    with pytest.raises(layout.Problem, match=f"class.csv: .*{why}"):
        hunts.read_roster(tmp_path / "class.csv")


def test_a_hunt_in_one_of_several_files(tmp_path: Path) -> None:
    """It has the files in src/ as the stage has them; they may come back without that folder."""
    exercises.write_tree({
        "chapters/05/src/server.h": '#include "base.h"\n', "chapters/05/src/main.c": "int main(void) {\n    a();\n}\n",
        "chapters/05/client.c": "", "common/base.h": "",
        "tests/broken/05-b.fault": "fault: f\nsymptom: s\ntest: tests/test_05.py::test_it\n\n"
        "@@ chapters/05/src/main.c, main()\n-    a();\n+    b();\n",
    }, tmp_path)  # fmt: skip
    hunt = hunts.Hunt("05", "b", tmp_path)
    tree = hunt.starter()
    assert sorted(tree) == ["Makefile", "README.md", "base.h", "client.c", "src/main.c", "src/server.h"]
    assert "b();" in tree["src/main.c"] and hunt.programs == ["server", "client"]
    exercises.write_tree({"main.c": "mended", "base.h": "mine"}, tmp_path / "flat")
    assert exercises.hand_in(hunt, tmp_path / "flat").taken == ["base.h", "src/main.c"]


def test_every_fault_makes_a_hunt() -> None:
    for name in hunts.eligible(layout.chapters()):
        hunt = hunts.Hunt(*name.split("-", 1))
        assert hunt.starter() != hunt.stage(), name


def test_a_hunt_follows_from_the_name_and_the_secret() -> None:
    known = hunts.eligible(["07", "08"])

    def first(secret: bytes, faults: List[str] = known) -> Dict[str, str]:
        return {name: hunts.chosen(name, secret, faults) for name in map(str, range(40))}

    one = first(b"one")
    assert first(b"one") == one != first(b"two") and len(set(one.values())) > 8
    fewer = first(b"one", [fault for fault in known if fault != one["0"]])
    assert [name for name in one if fewer[name] != one[name]] == [name for name in one if one[name] == one["0"]]


def test_hunts_are_graded(hunted: Path) -> None:
    """Mended: all points. As it was given: none. Not handed in: none."""
    work = hunted / "class"
    exercises.write_tree(hunts.Hunt("07", "del-takes-the-first").stage(), work / "ann" / "my" / "hunt")
    shutil.copytree(hunted / "out" / "students" / "bob", work / "bob")
    done = run(sys.executable, LEARN / "hunts.py", "grade", work, "--out", hunted / "out")
    assert done.returncode == 0, done.stdout
    with open(hunted / "out" / "grades" / "grades.csv", newline="") as file:
        rows = {row["submission"]: (row["hunt"], row["maximum"], row["note"]) for row in csv.DictReader(file)}
    assert rows == {
        "ann": ("10", "10", ""),
        "bob": ("0", "10", "hunt: nothing was changed in the starter"),
        "cat": ("0", "10", "hunt: was not handed in"),
    }
    said = (hunted / "out" / "grades" / "bob" / "transcript.txt").read_text()
    assert re.search(r"FAILED +0 of 7 +what was reported", said) and "SERVER=my/hunt/server" in said


def test_a_hunt_runs_what_it_promises() -> None:
    """The first tests of its chapter, its vectors and its sessions."""
    (basics,) = re.findall(r"^BASICS = \"(.*)\"$", (ROOT / "tests" / "exercises" / "hunt.py").read_text(), re.M)
    files = [f"tests/test_{chapter}.py" for chapter in layout.chapters()]
    done = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-k", basics, *files)
    for file in files:
        for what in (r"\w+\[03-", r"test_vector\[", r"test_session\["):
            if (file, what) != ("tests/test_03.py", r"test_vector\["):  # 03 has no messages yet
                assert re.search(f"^{file}::{what}", done.stdout, re.M), (file, what)


def test_the_chapters_file_has_no_points_for_a_hunt(tmp_path: Path) -> None:
    hunt = exercises.find("07-hunt-prefix")
    exercises.write_tree(hunt.stage(), tmp_path / "copied" / hunt.name)
    done = grade.grade_exercise(hunt, tmp_path / "copied" / hunt.name)
    assert done.result.score == 0 and f"{grade.BOOK}, so nothing is counted: server.c" in done.result.remarks


# ---- packages ----


@pytest.fixture(scope="module")
def handout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The handout of chapter 03, unpacked."""
    done = run("make", "handout", "SITE=yes", "CHAPTERS=3")
    assert done.returncode == 0 and "chapters 03," in done.stdout, done.stdout
    folder = tmp_path_factory.mktemp("handout")
    with tarfile.open(ROOT / "build" / "handout.tar.gz") as archive:
        archive.extractall(folder)
    return folder / "workbook"


def test_the_handout_gives_nothing_away(handout: Path) -> None:
    paths = [str(path.relative_to(handout)) for path in handout.rglob("*")]
    bad = [p for p in paths if re.search(r"solution|/wrong($|/)|key\.md|broken|teaching|\.fault$", p)]
    later = [p for p in paths if re.search(r"\b(0[4-9]|[1-9]\d)[-_/.]", p) and "figures" not in p]
    assert bad == [] and later == []
    assert "avl.h" not in {path.name for path in (handout / "common").iterdir()}
    assert "tests/vectors/09-*" not in pack.of_others(["10"]), "vectors hold for later chapters, too"


def test_no_link_of_the_handout_is_dead(handout: Path) -> None:
    """What was a link is text, and a row that began with one is gone."""
    for page in handout.rglob("*.md"):
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert re.match(r"\w+:", target) or (page.parent / target).exists(), f"{page.name}: {target}"
    assert "the teacher's pages have weeks" in (handout / "README.md").read_text(encoding="utf-8")
    rows = (handout / "common" / "README.md").read_text(encoding="utf-8")
    assert "| [base.h](base.h)" in rows and "avl.h" not in rows


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
    assert {"grade", "exercises", "asan", "clean"} <= offered
    for gone in ("handout", "gradescope", "hunts", "broken", "book-check"):
        assert gone not in offered and "there is no such target" in run("make", gone, cwd=handout).stdout
    (handout / "class" / "ann" / EARLY).mkdir(parents=True)
    for words in (["all"], ["progress"], ["next"], ["hint-" + EARLY], ["grade-all", "SUBMISSIONS=class"]):
        done = run("make", *words, cwd=handout)
        assert done.returncode == 0, (words, done.stdout)


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


def test_experiments_are_noticed_where_there_is_git(tmp_path: Path) -> None:
    root = tmp_path / "workbook"
    for name in ("common", "chapters/04", "tests/exercises"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("server", "client"))
    exercises.write_tree({"chapters/05/src/server.h": ""}, root)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]):
        assert run("git", *words, cwd=root).returncode == 0
    pristine.check(root)
    for path in (root / "common" / "base.h", root / "chapters" / "04" / "server.c"):
        path.write_text(path.read_text() + "int tried;\n")
    with pytest.raises(layout.Problem, match="(?s)^chapters/04/server.c is not .* git checkout chapters/04/server.c$"):
        pristine.check(root)
    (root / "chapters/05/src/server.h").write_text("int tried;\n")
    assert pristine.changed(root) == ["chapters/04/server.c", "chapters/05/src/server.h", "common/base.h"]


def test_what_is_packed_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without git it is said how to commit; what was changed since is named."""
    (tmp_path / "kept").write_text("as committed")
    (tmp_path / "left_out").write_text("")
    monkeypatch.setattr(pack, "ROOT", tmp_path)
    with pytest.raises(layout.Problem, match="^fatal: not a git repository") as problem:
        pack.archive([])
    assert run("sh", "-c", str(problem.value).splitlines()[-1], cwd=tmp_path).returncode == 0
    (tmp_path / "kept").write_text("changed since")
    packed = pack.archive(["left*"])
    assert b"as committed" in packed and b"left_out" not in packed
    assert " M kept" in capsys.readouterr().out


def test_the_guide_names_what_is_there() -> None:
    """Every exercise and every wrong server that the instructor's guide speaks of."""
    guide = (ROOT / "book" / "teaching" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:0[3-9]|[1-9]\d)-[a-z]+(?:-[a-z0-9]+)*", guide))
    chapters = {path.stem for path in (ROOT / "book").glob("*.md")}
    there = {e.name for e in exercises.all_exercises()} | {
        path.stem for path in (ROOT / "tests" / "broken").glob("*.fault")
    }
    assert len(named) > 40 and named - there - chapters == set()


def test_the_autograder_grades(tmp_path: Path) -> None:
    """run_autograder as Gradescope calls it, with its folder elsewhere."""
    assert run("make", "gradescope", f"EXERCISE={NAME}").returncode == 0
    source = tmp_path / "source"
    with zipfile.ZipFile(ROOT / "build" / "autograder.zip") as archive:
        names = archive.namelist()
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
        archive.extractall(source)
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert not [name for name in names if re.search(r"exercises/[^/]+/(solution|wrong|key)|tests/broken|/book/", name)]
    tmp_path.chmod(0o755)
    script = (source / "run_autograder").read_text().replace("/autograder/", f"{tmp_path}/")
    (source / "run_autograder").write_text(script.replace("/usr/bin/python3", sys.executable))
    exercises.write_tree(TREES["solution"], tmp_path / "submission")
    done = run("sh", source / "run_autograder")
    results = json.loads((tmp_path / "results" / "results.json").read_text())
    assert (results["score"], results["visibility"]) == (10, "visible"), done.stdout
    for test in results["tests"]:
        assert set(test) == {"name", "score", "max_score", "status", "output", "visibility"}
    shutil.rmtree(tmp_path / "submission")
    run("sh", source / "run_autograder")
    nothing = json.loads((tmp_path / "results" / "results.json").read_text())
    assert nothing["score"] == 0 and "there is no such folder" in nothing["output"]
