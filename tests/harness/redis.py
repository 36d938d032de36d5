"""Redis itself as the server under test: make test-20 SERVER=redis-server.

So our reading of Redis is held to Redis. It has all our commands but `zquery`, which it is taught by a script.
"""
from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, List, Sequence

from . import settings
from .wire import Arg, to_bytes

NAME = "redis-server"

# zquery key score name offset limit, as the protocol of chapter 11 has it. Redis's own commands look at the numbers.
ZQUERY = b"""
local key, score, name, offset, limit = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local function number(command, error, ...)
    local reply = redis.pcall(command, key, ...)
    if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE') then
        return {err = error}
    end
    return reply
end
local float, int = 'ERR value is not a valid float', 'ERR value is not an integer or out of range'
local scratch = redis.pcall('ZADD', '\\0scratch', score, '')
redis.call('DEL', '\\0scratch')
if type(scratch) == 'table' then return scratch end
for _, reply in ipairs({number('ZCOUNT', float, score, score), number('ZRANGE', int, offset, '0'),
                        number('ZRANGE', int, limit, '0')}) do
    if type(reply) == 'table' and reply.err then return reply end
end
local at = redis.call('ZCOUNT', key, '-inf', '(' .. score)
local last = at + redis.call('ZCOUNT', key, score, score)
while at < last do
    local middle = math.floor((at + last) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] < name then at = middle + 1 else last = middle end
end
at = at + tonumber(offset)
limit = math.min(tonumber(limit), redis.call('ZCARD', key))
if at < 0 or limit <= 0 or at > 1e15 then return {} end
return redis.call('ZRANGE', key, string.format('%d', at), string.format('%d', at + limit - 1), 'WITHSCORES')
"""
BAD_COUNT = b"""return redis.error_reply("ERR wrong number of arguments for 'zquery' command")"""


def is_tested() -> bool:
    """Does SERVER name Redis?"""
    words = settings.foreign("server")
    return bool(words) and Path(words[0]).name == NAME


def tells_apart(name: bytes) -> bool:
    """Is this name of a command another one to the server under test than all commands? Redis compares names with
    strcasecmp(), to which `get\\0x` is `get` where its table has both in one bucket, by chance."""
    return b"\0" not in name or not is_tested()


def read_of_bound(text: bytes) -> bytes:
    """What the server under test reads of the end of a range of scores: Redis, with strtod(), only what stands before
    a NUL."""
    return text.split(b"\0")[0] if is_tested() else text


def options(command: Sequence[str], env: Dict[str, str]) -> List[str]:
    """What Redis must be told on its command line, since it looks for nothing in its environment."""
    if not command or Path(command[0]).name != NAME:
        return []
    words = ["--port", env["PORT"], "--bind", env.get("BIND", "127.0.0.1"), "--save", ""]
    words += ["--appendonly", env.get("APPENDONLY", "no"), "--appendfsync", env.get("APPENDFSYNC", "everysec")]
    words += ["--dir", env["DIR"], "--aof-use-rdb-preamble", "no"] if "DIR" in env else []
    env["LC_ALL"] = "C"  # the order of bytes in its scripts
    return [*words, "--loglevel", "warning"]


def spoken(args: Sequence[Arg]) -> Sequence[Arg]:
    """The words of a request, as Redis has them."""
    if args and to_bytes(args[0]).lower() == b"zquery" and is_tested():
        return (b"EVAL", *((ZQUERY, b"1") if len(args) == 6 else (BAD_COUNT, b"0")), *args[1:])
    return args


def meant(words: List[bytes]) -> List[bytes]:
    """What spoken() was given."""
    return [b"zquery", *words[3:]] if words[:1] == [b"EVAL"] and words[1] in (ZQUERY, BAD_COUNT) else words


def is_there() -> bool:
    """Is it installed?"""
    return any(os.access(os.path.join(folder, NAME), os.X_OK) for folder in os.get_exec_path())
