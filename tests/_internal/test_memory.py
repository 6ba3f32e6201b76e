"""The collector is paused inside, and afterwards as it was."""

from __future__ import annotations

import gc
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from lagotto._internal.memory import paused_collector
from lagotto.server.serve import VARIABLE
from lagotto.server.settings import ServerSettings

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")

COUNT = """
import ctypes, re, tempfile, threading

def arenas():
    "Those that eight threads at once have, which allocate too much for the arena of another."
    everybody = threading.Barrier(8)
    def allocate():
        kept = [bytearray(60_000) for _ in range(20)]
        everybody.wait()
    threads = [threading.Thread(target=allocate) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.fflush.argtypes = [ctypes.c_void_p]
    with tempfile.TemporaryFile() as file:
        stream = libc.fdopen(file.fileno(), b"w")
        libc.malloc_info(0, stream)
        libc.fflush(stream)
        file.seek(0)
        return len(re.findall(rb"<heap nr=", file.read()))
"""


def printed(program: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    done = subprocess.run(
        [sys.executable, "-c", COUNT + program],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_threads_share_two_arenas() -> None:
    limited = "from lagotto._internal.memory import limit_arenas; print(limit_arenas(), arenas())"
    assert int(printed("print(arenas())")) > 2
    assert printed(limited) == "True 2"


LEFT = """
def left():
    "Megabytes that stay when twenty large blocks are freed, with a small one behind each."
    def resident():
        fields = open("/proc/self/statm").read().split()
        return int(fields[1]) * 4096 // 10**6
    del (first := [b"x" * 8_000_000])[:]  # after which malloc would keep others of this size
    before = resident()
    blocks = [(b"x" * 8_000_000, bytes(100_000)) for _ in range(20)]
    small = [each[1] for each in blocks]
    del blocks
    return resident() - before
"""


def test_large_blocks_go_back_to_the_system() -> None:
    limited = "from lagotto._internal.memory import limit_arenas; limit_arenas(); print(left())"
    assert int(printed(f"{LEFT}\nprint(left())")) > 100
    assert int(printed(f"{LEFT}\n{limited}")) < 30


def test_what_the_environment_says_stays() -> None:
    limited = "from lagotto._internal.memory import limit_arenas; print(limit_arenas(), arenas())"
    assert printed(limited, MALLOC_ARENA_MAX="4") == "False 4"


def test_processes_of_a_server_share_two_arenas(tmp_path: Path) -> None:
    settings = ServerSettings(location=str(tmp_path / "kb.db"))
    program = "from lagotto.server.serve import app_of_environment; app_of_environment()"
    environment = {VARIABLE: json.dumps(settings.model_dump(mode="json"))}
    assert printed(f"{program}; print(arenas())", **environment) == "2"


def test_paused_inside_and_enabled_afterwards() -> None:
    def fail() -> None:
        with paused_collector():
            with paused_collector():
                assert not gc.isenabled()
            assert not gc.isenabled()
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
