"""Namespaces of the Linux kernel: a program that sees the files, the network and the processes that are meant for it.

    python3 -I -S namespaces.py -- command...

runs a command alone: no process but its own is to be seen, and its network is a loopback address that nobody else
has. sandbox.py calls see_only(), which leaves a program the system and the folder of its submission. Root may do all
that; others may where the kernel lets them have a namespace of users. OSError says what the kernel did not allow.
"""
from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
KEPT_FLAGS = {1: 1, 2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}  # of statvfs: those of mount
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
SIGKILL = 9
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "nix", "gnu", "sys", "dev", "proc")

libc = ctypes.CDLL(None, use_errno=True)


def called(status: int, what: str) -> None:
    """Raises OSError where a call of the C library failed."""
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = [word.encode() if word else None for word in (source, target, kind)]
    called(libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None), f"mount {target}")


def bind(source: str, target: str, writable: bool = False, deep: bool = True) -> None:
    """Shows a folder at another place. deep: with all that is mounted in it."""
    os.makedirs(target, exist_ok=True)
    mount(source, target, flags=MS_BIND | MS_REC * deep)
    if not writable:
        now = os.statvfs(target).f_flag
        kept = sum(flag for bit, flag in KEPT_FLAGS.items() if now & bit)
        mount("", target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def empty(target: str, options: str = "mode=755,size=64k") -> None:
    """Puts an empty folder over whatever is there."""
    os.makedirs(target, exist_ok=True)
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)


def unshare(flags: int) -> None:
    """Leaves namespaces. Who is not root takes one of users along, and stays the same user in there."""
    uid, gid = os.getuid(), os.getgid()
    called(libc.unshare(flags | (CLONE_NEWUSER if uid else 0)), "unshare")
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def no_new_rights() -> None:
    """From now on no program gives more rights than this one has, neither su nor sudo."""
    called(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


# ---- files ----


def see_only(scratch: str, home: str, hidden: "list[str]") -> None:
    """This process sees the system, what `scratch` holds for it, and its home. /tmp is its own. `hidden` are folders
    that are not to be seen where they lie inside of the system's."""
    unshare(CLONE_NEWNS)
    mount("", "/", flags=MS_REC | MS_PRIVATE)
    new = f"{scratch}/root"
    empty(new, "mode=755,size=1m")
    for name in SYSTEM:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{new}/{name}")
        elif os.path.isdir(f"/{name}"):
            bind(f"/{name}", f"{new}/{name}", writable=name in ("dev", "proc", "sys"))  # the kernel guards these
    if os.path.isdir(f"{new}/dev/shm"):
        empty(f"{new}/dev/shm", "mode=1777,size=64m")
    for folder in hidden:
        if os.path.isdir(new + folder):
            empty(new + folder)
    for folder in (sys.prefix, sys.base_prefix):  # the Python that runs attacks, where it is not the system's
        if not os.path.isdir(new + folder):
            bind(folder, new + folder)
    bind(f"{home}.tmp", f"{new}/tmp", writable=True)
    os.makedirs(f"{new}/var", exist_ok=True)
    os.symlink("/tmp", f"{new}/var/tmp")
    bind(scratch, new + scratch, deep=False)
    for name in sorted(os.listdir(scratch)):
        path = f"{scratch}/{name}"
        if path == home or name == "tmp":  # where graders lay files that both of them write
            bind(path, new + path, writable=True)
        elif name.startswith(("out", "home", "guest")):
            empty(new + path)
    os.chdir(new)
    called(libc.pivot_root(b".", b"."), "pivot_root")
    called(libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")


# ---- processes and network ----


def loopback_up() -> None:
    """A new network has the loopback address, but it is down."""
    import fcntl
    import socket
    import struct

    with socket.socket() as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING


def ended(pid: int) -> int:
    """Waits for the end of a child, and reaps all others; the exit status, as a shell tells it."""
    while True:
        found, status = os.wait()
        if found == pid:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def alone() -> None:
    """What is left to do is done by a child, with no other processes and no other network in its sight; we wait for it,
    and end with its exit status."""
    import signal

    unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child has it too, and knows what to do
    first = os.fork()
    if first:
        os._exit(ended(first))
    # The first process of a namespace: when it ends, the kernel ends all the others.
    called(libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "prctl")
    mount("", "/", flags=MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)
    loopback_up()
    second = os.fork()
    if second:
        os._exit(ended(second))
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    command = sys.argv[sys.argv.index("--") + 1 :]
    try:
        alone()
        os.execv(command[0], command)
    except OSError as error:
        sys.stderr.write(f"the kernel does not let us be alone: {error.strerror}\n")
        os._exit(126)


if __name__ == "__main__":
    main()
