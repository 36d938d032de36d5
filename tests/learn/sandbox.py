"""Becomes a program of a submission: limits itself, leaves the grader's user where it can, then executes the program.

    python3 -I -S sandbox.py id=TOKEN home=DIR [sees=DIR hide=DIR:DIR] [uid=N] [as=MIB] [nproc=N]
        [fsize=MIB] [cpu=S] [nofile=N] -- command...

id      stands in the environment of all that the program starts, so that the grader finds it again
home    a folder of its own: the current one, HOME and TMPDIR
sees    the folder of the submission: nothing else is to be seen but the system, and no other /tmp but home.tmp; hide
        are folders that are not to be seen where they lie among those of the system (namespaces.py)
uid     the user and group that a grader who is root makes of it
as      address space of a process; not to be given for a program with a sanitizer, which reserves terabytes
nproc   processes and threads of the user; fsize: size of a file; cpu: seconds of a process; nofile: descriptors

The process stays the same one, so whoever has started this has started the program. It runs before every program of
every test, hence the few imports.
"""
from __future__ import annotations

import os
import resource
import sys

try:
    import _signal as signal  # signal.py takes longer to import than all else here
except ImportError:
    import signal  # type: ignore[no-redef]

MIB = 1 << 20
LIMITS = {
    "as": (resource.RLIMIT_AS, MIB),
    "nproc": (resource.RLIMIT_NPROC, 1),
    "fsize": (resource.RLIMIT_FSIZE, MIB),
    "cpu": (resource.RLIMIT_CPU, 1),
    "nofile": (resource.RLIMIT_NOFILE, 1),
}
PRIVATE = ("GRADE_", "SUBMISSION", "WORKBOOK_", "WRAPPER", "PYTEST_", "PYTHON")  # what is the grader's alone


def limit(which: int, most: int) -> None:
    """Lowers a limit for good; one that is lower already stays."""
    for each in resource.getrlimit(which):
        most = most if each == resource.RLIM_INFINITY else min(most, each)
    resource.setrlimit(which, (most, most))


def execute(command: "list[str]") -> str:
    """Becomes the command, or returns why not. os.execvp() would import more, which the user may not be able to
    read."""
    why = "not found"
    folders = [""] if "/" in command[0] else os.environ.get("PATH", "/usr/bin:/bin").split(":")
    for folder in folders:
        try:
            os.execv(os.path.join(folder, command[0]), command)
        except FileNotFoundError:
            pass
        except OSError as error:
            why = error.strerror
    return why


def main() -> None:
    cut = sys.argv.index("--")
    settings = dict(word.split("=", 1) for word in sys.argv[1:cut])
    command = sys.argv[cut + 1 :]
    for name in [name for name in os.environ if name.startswith(PRIVATE)]:
        del os.environ[name]
    home = settings["home"]
    os.environ.update(HOME=home, TMPDIR=home, WORKBOOK_CONFINED=settings["id"])
    if "sees" in settings:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import namespaces

        try:
            namespaces.see_only(settings["sees"], home, settings["hide"].split(":"))
            namespaces.no_new_rights()
        except OSError as error:
            sys.stderr.write(f"the submission cannot be kept apart: {error.strerror}\n")
            os._exit(126)
    os.chdir(home)
    for sig in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit that
        signal.signal(sig, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, (which, unit) in LIMITS.items():
        if name in settings:
            limit(which, int(settings[name]) * unit)
    if "uid" in settings:
        uid = int(settings["uid"])
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    sys.stderr.write(f"{command[0]} cannot be started: {execute(command)}\n")
    os._exit(127)


if __name__ == "__main__":
    main()
