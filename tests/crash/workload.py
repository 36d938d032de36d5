"""What clients ask of a server while it is recorded, and what its keys may be afterwards.

Some *writers*, each a connection, change keys of their own; each in its order, several at once. One request or
transaction is a *step*. Behind every step stands INCR of the key `order`, which all share: the replies say which step
of one writer was before which of another. So the keys that are found after a crash are right where, for each writer,
they are those after a certain step, and where these are the steps with an `order` up to the one that is found.
"""
from __future__ import annotations

import random
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from crash.servers import Client, Clock, Error, Server, Trouble, Words

ORDER = b"order"
LATER = 4_000_000_000_000  # a deadline that no test lives to see, in milliseconds since 1970
LAST = 1 << 30  # start of a server
REWRITE: Dict[str, List[Words]] = {
    "bgrewriteaof": [(b"bgrewriteaof",)],
    "off-and-on": [(b"config", b"set", b"appendonly", value) for value in (b"no", b"yes")],
}
REWRITE_ROUNDS = 12  # in one of so many rounds the log is written anew
GOES_ON = (b"aof_rewrite_in_progress:1", b"aof_rewrite_scheduled:1")  # in what INFO says
FAILS = b"aof_last_write_status:err"  # in the same: a rewrite waits until the log can be written
LATE_NS = 3_000_000_000  # until nobody waits for that: some disks fail for ever
Keys = Dict[bytes, object]  # key -> what it holds, with its deadline


class Step:
    """What is sent as a whole, and what came of it. `end` are the bytes of replies on its connection, this one's
    included; -1 where it was not answered. `ns` is when that was waited for."""

    def __init__(self, *requests: Words) -> None:
        self.requests = requests
        self.replies: List[object] = []
        self.port, self.end, self.ns = 0, -1, 0
        self.keys: Keys = {}  # of its writer, after it
        self.order: Optional[int] = None  # the reply to INCR order, where it has one

    def __str__(self) -> str:
        words = ["".join(map(chr, b" ".join(word[:20] for word in words))) for words in self.requests]
        return "; ".join(words)

    @property
    def refused(self) -> bool:
        """Has it, or its EXEC, been answered with an error? Then nothing was done."""
        return any(isinstance(reply, Error) for reply in self.replies)


class Found(NamedTuple):
    """What a server has in the keys of a writer, and in the `order` that it counts."""

    keys: Keys
    order: int


class Writer:
    """One connection's steps, and their model. The third writer, and each third one, works in database 1."""

    def __init__(self, number: int, seed: int) -> None:
        self.name = b"%d:" % number
        self.database = (b"select", b"1" if number % 3 == 2 else b"0")
        self.steps: List[Step] = []
        self._rng = random.Random(f"{seed} {number}")
        self._count = 0
        self._before: Keys = {}  # its keys before the first step
        self._likely: Keys = {}  # its keys after the last, where none is refused
        self._seen: List[Keys] = [{}]
        self._until: List[List[Step]] = []  # its steps up to the end of each start of the server but the last

    def more(self) -> List[Step]:
        """The next steps to be sent: a change and its INCR, or both in a transaction."""
        while True:
            self._count += 1
            changes = self._change()
            after = dict(self._likely)
            for words in changes:
                change(after, words)
            if after not in self._seen:  # else a crash could not be told from another
                break
        self._likely = after
        self._seen.append(after)
        count = (b"incr", ORDER)
        if len(changes) > 1 or self._rng.random() < 0.2:
            new = [Step((b"multi",), *changes, count, (b"exec",))]
        else:
            new = [Step(*changes), Step(count)]
        self.steps += new
        return new

    def _change(self) -> List[Words]:
        rng, number = self._rng, b"%d" % self._count
        key = self.name + rng.choice([b"a", b"b", b"c", b"d"])
        size = rng.choice([0] * 30 + [100] * 6 + [600, 1500, 5000])
        kind = rng.randrange(10)
        if kind < 4:
            return [(b"set", key, (number + b".") + number * (size // len(number)))]
        if kind < 5:
            return [(b"incr", self.name + b"n")]
        if kind < 7:
            return [(b"zadd", self.name + b"z", number, rng.choice([b"x", b"y", b"member-%d" % (self._count % 7)]))]
        if kind < 8:
            return [(b"del", key)]
        if kind < 9:
            return [(b"set", key, number), (b"pexpireat", key, b"%d" % (LATER + self._count))]
        return [(b"set", key, number), (b"del", self.name + b"z"), (b"incr", self.name + b"n")]

    def learn(self) -> None:
        """Says of each step what the keys were after it, now that the replies are known. What was not answered is taken
        for done: it stands behind all that was."""
        keys = self._before
        for step in self.steps:
            if not step.refused:
                keys = dict(keys)
                for words in step.requests:
                    change(keys, words)
            step.keys = keys
            last = step.replies[-1] if step.replies else None
            if ORDER in (words[-1] for words in step.requests) and not step.refused and step.end >= 0:
                step.order = last[-1] if isinstance(last, list) else last  # type: ignore[assignment]

    def found(self, client: Client) -> Found:
        """What is in its keys."""
        strings = [self.name + letter for letter in (b"a", b"b", b"c", b"d", b"n")]
        deadlines: List[Words] = [(b"pexpiretime", key) for key in strings]
        pairs_of = (b"zrange", self.name + b"z", b"0", b"-1", b"withscores")
        replies = client.ask(self.database, (b"get", ORDER), (b"mget", *strings), pairs_of, *deadlines)
        if any(isinstance(reply, Error) for reply in replies):
            raise Trouble(f"it answers {replies}")
        order, values, pairs = replies[1:4]
        assert isinstance(values, list) and isinstance(pairs, list)
        keys: Keys = {key: both for key, *both in zip(strings, values, replies[4:]) if both[0] is not None}
        if pairs:
            keys[self.name + b"z"] = dict(zip(pairs[::2], map(float, pairs[1::2])))
        return Found(keys, int(order or 0))  # type: ignore[call-overload]

    def wrong(self, found: Found, least: int, start: int) -> str:
        """What is wrong with these keys after a crash in that start of the server (the first is 0), where its first
        so many steps must be in them; "" where nothing is."""
        steps = self._until[start] if start < len(self._until) else self.steps
        fits = [n for n in range(len(steps) + 1) if found.keys == (steps[n - 1].keys if n else self._before)]
        if not fits:
            return f"keys that never were: {_shown(found.keys)}; {_nearest(steps, found.keys)}"
        if fits[-1] < least:
            return f"answered and lost: {least - fits[-1]} steps, of which `{steps[fits[-1]]}` is the first"
        for n in fits:  # of those with an order, are the first n there, and no other?
            ordered = ((each.order <= found.order) == (i < n) for i, each in enumerate(steps) if each.order)
            if n >= least and all(ordered):
                return ""
        return f"a hole: its keys are those after step {fits[-1]}, but `order` is {found.order}"

    def go_on(self, found: Found, forget: bool) -> None:
        """These are its keys in a server that has been started again: steps that are not in them have never been, but
        a crash before that start could have left them. It may forget all that was before."""
        self._until.append(list(self.steps))
        while (self.steps[-1].keys if self.steps else self._before) != found.keys:
            self.steps.pop()
        self._likely = found.keys
        if forget:
            self.steps, self._until, self._before, self._seen = [], [], found.keys, [found.keys]


def _nearest(steps: Sequence[Step], keys: Keys) -> str:
    """After which step they were nearly so."""

    def differ(step: Step) -> List[bytes]:
        return [key for key in {*keys, *step.keys} if keys.get(key) != step.keys.get(key)]

    if not steps:
        return "it has sent nothing"
    best = min(steps, key=lambda step: len(differ(step)))
    return f"after `{best}`, they had {_shown({key: best.keys.get(key) for key in differ(best)})}"


def _shown(keys: Keys) -> str:
    """Not all of long values."""
    return ", ".join(f"{key.decode()}: {repr(value)[:60]}" for key, value in sorted(keys.items())) or "none"


def change(keys: Keys, words: Words) -> None:
    """What a request does to keys."""
    name, rest = words[0], words[1:]
    if rest[:1] == (ORDER,) or not rest:
        return
    key = rest[0]
    if name == b"set":
        keys[key] = [rest[1], -1]
    elif name == b"incr":
        keys[key] = [b"%d" % (int(keys.get(key, [b"0"])[0]) + 1), -1]  # type: ignore[index]
    elif name == b"zadd":
        keys[key] = {**keys.get(key, {}), rest[2]: float(rest[1])}  # type: ignore[dict-item]
    elif name == b"pexpireat":
        keys[key] = [keys[key][0], int(rest[1])]  # type: ignore[index]
    elif name == b"del":
        keys.pop(key, None)
    else:
        raise AssertionError(name)


def _rests(client: Client, late: bool) -> bool:
    """Is the log not written anew now? When it is `late`, nor is one that waits for a disk that fails."""
    (info,) = client.ask((b"info", b"persistence"))
    assert isinstance(info, bytes)
    return not any(word in info for word in GOES_ON) or (late and FAILS in info)


class Workload:
    """All writers. `play` has them talk to a server; afterwards `learn`, then `wrong` judges what a server has."""

    def __init__(self, writers: int, seed: int) -> None:
        self.writers = [Writer(number, seed) for number in range(writers)]
        self._rng = random.Random(seed)

    def play(
        self, server: Server, rounds: int, pause: float = 0, rewrite: str = "", clock: Clock = Clock(),
    ) -> bool:  # fmt: skip
        """Each round, some writers send some steps each, and wait for the replies. The log may be written anew now and
        then, as REWRITE says, once at least. Returns whether the server has answered all of them: it may have ended by
        itself."""
        clients: Dict[Writer, Client] = {}
        try:
            for writer in self.writers:
                clients[writer] = Client(server, clock)
                clients[writer].ask(writer.database)
            for number in range(rounds):
                clock.sleep(pause)
                if rewrite and (number == rounds // 2 or self._rng.random() < 1 / REWRITE_ROUNDS):
                    clients[self.writers[0]].ask(*REWRITE[rewrite])
                sent = []
                for writer in self._rng.sample(self.writers, self._rng.choice([1, len(self.writers)])):
                    steps = [step for _ in range(self._rng.choice([1, 1, 2, 4])) for step in writer.more()]
                    clients[writer].send([words for step in steps for words in step.requests])
                    sent.append((clients[writer], steps))
                for client, steps in sent:
                    for step in steps:
                        step.port, step.ns = client.port, clock.ns()
                        step.replies = [client.reply() for _ in step.requests]
                        step.end = client.taken
            end = clock.ns() + LATE_NS
            for client in clients.values():  # when this is answered, the recorder knows of all that was before
                while not _rests(client, clock.ns() > end):
                    clock.sleep(0.02)
        except Trouble:
            return False
        finally:
            for client in clients.values():
                client.__exit__()
        return True

    def learn(self) -> None:
        """To be called when all has been played."""
        for writer in self.writers:
            writer.learn()

    def found(self, server: Server) -> List[Found]:
        """What a server has in the keys of each writer."""
        with Client(server) as client:
            return [writer.found(client) for writer in self.writers]

    def wrong(self, found: Sequence[Found], least: Sequence[int], start: int = LAST) -> str:
        """What is wrong with that after a crash in that start of the server, where of each writer so many steps must
        be there; "" where nothing is."""
        for number, (writer, keys, steps) in enumerate(zip(self.writers, found, least)):
            problem = writer.wrong(keys, steps, start)
            if problem:
                kind, _, text = problem.partition(":")
                return f"{kind}: writer {number}:{text}"
        return ""

    def go_on(self, server: Server, answered_counts: bool, forget: bool = False) -> str:
        """Before a server that has been started again is played to: what is wrong with its keys, where those of all
        steps that were answered must be there, or of the first ones, whichever; "" where nothing is."""
        self.learn()
        found = self.found(server)
        least = [sum(step.end >= 0 for step in writer.steps) * answered_counts for writer in self.writers]
        problem = self.wrong(found, least)
        for writer, keys in zip(self.writers, found):
            if not problem:
                writer.go_on(keys, forget)
        return problem
