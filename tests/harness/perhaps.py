"""A likely cause for a failure that has none of its own: what a case looks at has usually one reason to be wrong.

By the module of the case and its name, or by the module alone. test_messages.py holds us to it: a `fail` without a
cause, or a bare assertion, stands in a case that is named here.
"""
from __future__ import annotations

import re

from .failure import NO_CAUSE, Cause, Failure, cause
from .settings import ROOT

CLIENT = (
    "of the client: replies go to standard output, one line about what went wrong to standard error; then it ends with "
    "status 1, otherwise with 0. book/protocol.md says the rest, under Clients."
)
COUNTED = (
    "INFO counts while things happen: look where the counter goes up, and whether a key is looked up twice for one "
    "command"
)
LAB = (
    "the program of the chapter's folder prints the line that does not hold: build it there with make, and run it by "
    "itself"
)
SPINS = (
    "is the timeout of poll() or epoll_wait() what is left until the next thing is due, rounded up to a millisecond, "
    "and -1 "
    "where nothing is?"
)
SHARES = "a turn does a part of a client's work, then others have theirs: what is left is done in the next round"
UNTOLD = (
    "a signal sets a flag and writes a byte into a pipe (or is waited for in ppoll); the loop looks at it in each "
    "round, also "
    "between two clients, and main() returns 0"
)
KEPT = (
    "memory: what a buffer, a queue or a reply has held must be given back once it is empty, and be counted in bytes "
    "while not"
)

PERHAPS = {
    # ---- modules, where no case of theirs is named ----
    "beside_redis": "send the same command to redis-server with redis-cli: the reply is Redis's to the byte, its "
    "errors too",
    "client_errors": CLIENT,
    "clients": CLIENT,
    "clock": SPINS,
    "crowd": "the kernel tells which connections are ready, and only these are looked at: what waits for us is in a "
    "list of ours",
    "expiry": COUNTED,
    "keyspace": "each database has a table of its own, and each connection the number of the one that it has chosen",
    "labs": LAB,
    "leaks": "what malloc() or accept() has given is freed or closed once, on every way out: build with "
    "-fsanitize=address",
    "logs": "one line for each thing that happens, written at once, to standard error or flushed",
    "memory": KEPT,
    "merges": "glibc puts small freed blocks aside and merges them all in one go: tidy a few at a time "
    "(common/mem_tidy.h)",
    "processes": UNTOLD,
    "readme": "play the session of the chapter's README by hand, line by line: where does yours begin to differ?",
    "real_clients": "start the server yourself and give the same line to this program; MONITOR of a Redis shows what "
    "it sends",
    "resp": "the reply has the form that Redis gives it: redis-cli shows it, and book/protocol.md has the fields",
    "scan": "the cursor must survive that the table grows and shrinks between two calls: count its bits up from the "
    "top",
    "trouble": "what is rare happens: settings that are empty, a call that fails, a client that is gone before its "
    "answer",
    "test_03": "chapter 03 reads once, answers `world`, closes, and goes back to accept(); it prints `client says: ` "
    "and the text",
    "test_04": "chapter 04 reads a length and so many bytes, prints them, answers, and goes on until the client ends "
    "its input",
    "test_05": "chapter 05 sends each connection what came on it, and waits for all of them in one poll()",
    "test_06": "chapter 06 answers each message with itself, in order; it prints the message and how a connection "
    "ended",
    "test_08": LAB,
    "test_10": LAB,
    "test_11": LAB,
    "test_12": "IDLE_TIMEOUT_MS that is not set means 5000: five seconds, in milliseconds",
    "test_13": LAB,
    "test_14": "a large set is freed by a thread that waits for work; the loop puts it into the queue and goes on",
    "test_15": LAB,
    "test_16": LAB,
    "test_17": LAB,
    "test_18": LAB,
    # ---- cases ----
    "readme.readme_compile_lines": "the line in the README that builds the program is the one that make runs: "
    "change both",
    "clock.out_of_descriptors_and_nothing_happens": "out of descriptors, accept() fails at once each time: look away "
    "from the "
    "listening socket, and back some times a second, or when a connection is closed",
    "clock.a_client_comes_while_others_are_accepted": "accept() until it says EAGAIN, then wait for the listening "
    "socket again",
    "clock.a_signal_while_bytes_are_thrown_away": "a read() that ends with EINTR is tried again: it says nothing "
    "about the client",
    "clock.a_flood_in_many_turns": SHARES,
    "clock.a_burst_that_leaves": "what poll() is given shrinks when connections go: no place is left for one that is "
    "closed",
    "clock.every_byte_renews": "note the time after each read() and write() that moved a byte, also where the bytes "
    "are thrown away",
    "clock.a_hundred_at_one_time": "when the loop wakes up, all that are due are closed, not the first one alone",
    "clock.many_at_one_instant": "when the loop wakes up, it removes many of those that are due, at most 200, and "
    "comes back at "
    "once for the rest",
    "clock.the_timer_goes_at_the_deadline": "the first of the heap is due first: does an item that is taken out of "
    "the middle go up "
    "or down from there, as its deadline says?",
    "clock.deadlines_that_are_far": "poll() takes an int: compare in 64 bits what is left, and cut it down to INT_MAX",
    "crowd.the_kernel_is_told_of_changes_alone": "epoll_ctl() is called where what a connection waits for changes: "
    "compare with "
    "what the kernel was told last",
    "crowd.idle_connections_own_nothing": "a connection has buffers only while something is in them; then they go back",
    "crowd.thousands_that_were_busy": "a connection has buffers only while something is in them; then they go back",
    "crowd.what_is_left_over_is_kept_and_no_more": "a part of a request is kept in as much memory as it needs, not in "
    "a whole buffer",
    "crowd.descriptors_that_come_back_in_the_same_round": "close connections behind the events of the round: a number "
    "that is closed "
    "may come back from accept() while an event for the old one still waits",
    "crowd.more_to_do_is_done_behind_the_others": SHARES,
    "crowd.a_descriptor_is_free_and_no_time_passes": "out of descriptors, whoever closes a connection looks at "
    "accept() again",
    "crowd.epoll_takes_no_more": "where epoll_ctl() refuses a new connection, close it and free what belongs to it",
    "crowd.replies_of_a_round_are_sent_together": "replies are written behind the last request of the round, not after "
    "each",
    "crowd.replies_that_are_large_do_not_wait": "what waits to be written is counted, and written before it becomes "
    "too much",
    "crowd.replies_are_sent_before_the_server_leaves": "who has been served gets the reply, also where a signal ends "
    "the loop there",
    "expiry.keys_nobody_asks_for_go": "the cycle looks at some keys of each database ten times a second, and goes on "
    "where many "
    "of them are over",
    "expiry.no_ttl_no_wake_up": SPINS,
    "expiry.keys_go_while_others_come": "the cycle looks at more keys where more of those that it saw were over",
    "expiry.dead_keys_go_and_others_do_not_wait": "the cycle works for some time, then others have a turn, and it "
    "comes back soon",
    "expiry.the_cycle_goes_on_when_the_clock_is_set": "deadlines go by the wall clock, pauses of the cycle by the "
    "monotonic one",
    "expiry.the_average_ttl": "the average is taken of the keys that the cycle has looked at; with no TTL it is 0",
    "expiry.the_average_of_the_latest_dates": "add up in more than 64 bits, or divide before",
    "expiry.every_change_counts": "each key that is set, changed or removed is one change; what finds nothing to "
    "change is none",
    "expiry.whoever_asks_first": "whoever looks a key up compares its date with the clock, removes it if that is "
    "over, and counts it",
    "idle.timeouts_that_are_wrong": "IDLE_TIMEOUT_MS is a whole number from 0 to 2147483647: strtol() with its end "
    "looked at",
    "idle.client_connects_again": CLIENT,
    "idle.client_that_is_in_time": CLIENT,
    "keyspace.randomkey": "draw a bucket, then a key of its chain; and again where the bucket is empty or the key is "
    "over",
    "keyspace.randomkey_in_a_table_that_has_shrunk": "draw among the buckets that there are, in both tables while one "
    "is moved",
    "keyspace.info_of_each_database": COUNTED,
    "keyspace.command_describes_the_new_ones": "COMMAND INFO has six fields of each command, from its table: add the "
    "new rows there",
    "logs.one_line_for_each_that_is_idle": "this machine is busy: try again when it is quiet, or set "
    "TEST_TIME_FACTOR=4",
    "processes.port_in_use": "bind() fails: one line with what failed, the address, and strerror(errno), then exit(1)",
    "processes.closed_descriptors": "0, 1 and 2 may be closed when the program starts: open /dev/null until they are "
    "taken",
    "processes.client_with_closed_descriptors": "0, 1 and 2 may be closed when the program starts: open /dev/null "
    "until they are taken",
    "processes.client_whose_server_hangs_up": CLIENT,
    "processes.leaves_with_many_keys": "at the end the system takes all memory back: do not free millions of keys one "
    "by one",
    "resp.mutated_streams": "the last lines are the stream: send it to redis-server as well, and compare",
    "resp.claims_are_not_asked_for": "a length alone must cost nothing: let the buffer grow as the bytes come",
    "strings.wrong_numbers_of_arguments": "the command is known, its arguments are not right: an error of its own, "
    "not Unknown cmd",
    "strings.keys_that_collide_on_purpose": "a client that knows the hash can choose keys of one bucket: hash with a "
    "random key "
    "(SipHash)",
    "strings.hash_seed_that_is_wrong": "32 hex digits, no more and no less: say `HASH_SEED=...:` and what is wrong, "
    "exit status 1",
    "strings.client_sends_its_arguments": CLIENT,
    "trouble.settings_that_are_empty": "a variable that is set and empty counts as not set: look at the first byte of "
    "getenv()",
    "trouble.a_signal_while_the_pipe_is_full": "the pipe that the handler writes into is nonblocking: a full one has "
    "told enough",
    "test_05.test_silent_clients_hold_up_nobody": "does the server wait in read() for a client that is silent? Ask "
    "poll() first.",
    "test_06.test_clients_at_the_same_time": "does a client wait for the one before? A small reply never waits: "
    "TCP_NODELAY.",
    "test_14.test_memory_comes_back": "a worker frees what it is given: is one woken (pthread_cond_signal) for each "
    "set, does it take every piece of work, and free all of it?",
    "test_14.test_leaves_with_very_much_work_queued": "at the end the system takes all memory back: the queue is left "
    "as it is",
    "test_14.test_four_threads_beside_the_loop": "four workers are started once, before the loop",
    "test_14.test_signals_reach_the_loop": "block signals before the threads are started, and unblock them in the "
    "loop's own",
    "test_14.test_a_crash_in_a_worker_calls_a_handler": "take SIGSEGV, SIGBUS, SIGFPE and SIGILL out of the mask "
    "(sigdelset) before the workers are started",
    "test_14.test_what_a_worker_frees_is_merged_by_the_worker": "the worker tidies what it has freed "
    "(common/mem_tidy.h)",
    "test_14.test_small_sets_die_in_place": "only sets above 10000 members are handed to a worker",
}

_OF_OTHERS = {  # modules whose cases are about what they send
    name: "what was sent last stands above, what came below it: send it by hand (the chapter's client, or nc), and look"
    for name in ("abuse", "basics", "batches", "framing", "idle", "replies", "strings", "talk", "ttl", "zsets")
}


def _with_its_name(chapter: str) -> str:
    """What LAB says, with the line to type where the chapter has one lab program that tests."""
    programs = [path.stem for path in ROOT.glob(f"chapters/{chapter}/test_*.c")]
    if len(programs) != 1:
        return LAB
    run = f"make {chapter} && chapters/{chapter}/{programs[0]}"
    return f"{programs[0]} prints the line that does not hold, and calls fewer functions than a server: {run}"


def perhaps(module: str, name: str, failure: Failure, says: str = "") -> Failure:
    """A failure of this case with a likely cause, and with what was expected: where it does not tell, that is the last
    sentence of what the case says of itself."""
    short = module.rpartition(".")[2]
    words = PERHAPS.get(f"{short}.{name}") or PERHAPS.get(short) or _OF_OTHERS.get(short, "")
    words = _with_its_name(short[-2:]) if words is LAB else words
    why: Cause = failure.why or (cause(words) if words else NO_CAUSE)
    blocks = failure.blocks
    if says and not any(title == "expected" for title, _ in blocks):
        last = re.split(r"(?<=[.:;])\s+", says)[-1].rstrip(".")
        if not re.match(r"Those |The thread", last) and not re.search(r"\.(py|c)\b|tests/", last):  # of how, not what
            blocks = [*blocks, ("expected", [last])]
    return Failure(failure.what, blocks, why)
