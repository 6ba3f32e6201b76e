"""Feed random and mutated inputs to everything that takes input from outside.

    python benchmarks fuzz --inputs 200000 --seed 7
    python benchmarks fuzz --inputs 20000 --target reader

Inputs run in child processes with limits on memory and on CPU time per input. A finding is an
exception outside the LagottoError tree, a broken invariant, a crash, or an input over a limit; it
is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from fuzz_targets import TARGETS, Target
from lagotto.errors import LagottoError

FOLDER = Path(__file__).parent
BATCH = 2_000
SECONDS = 5.0
"""CPU time that one input may take, on inputs of a few kilobytes."""
MEMORY = 3_000_000_000
MOST_FINDINGS = 25
"""After so many a target is given up."""


@dataclass(slots=True)
class Outcome:
    """What became of the inputs of one target."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    peak: int = 0
    findings: list[str] = field(default_factory=list)


def main() -> int:
    """Run all targets, or, with --child, one batch of one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="", help="a target, or `reader` for all readers")
    parser.add_argument("--child", nargs=2, type=int, metavar=("FIRST", "COUNT"))
    options = parser.parse_args()
    if options.child:
        first, count = options.child
        run_batch(TARGETS[options.target][0], options.seed, first, count)
        return 0
    wanted = {
        name: share
        for name, (_, share) in TARGETS.items()
        if f"{name}.".startswith(f"{options.target}." if options.target else "")
    }
    if not wanted:
        parser.error(f"no target {options.target!r}; there are {', '.join(TARGETS)}")
    every = sum(wanted.values())
    counts = {name: math.ceil(options.inputs * share / every) for name, share in wanted.items()}
    return report(
        {name: run_target(name, seed=options.seed, count=count) for name, count in counts.items()}
    )


def run_target(name: str, *, seed: int, count: int) -> Outcome:
    """Run `count` inputs of a target in batches; a batch that dies goes on behind the input."""
    outcome = Outcome()
    first = 0
    while first < count and len(outcome.findings) < MOST_FINDINGS:
        size = min(BATCH, count - first)
        command = [sys.executable, str(FOLDER), "fuzz", "--target", name, "--seed", str(seed)]
        command += ["--child", str(first), str(size)]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        done = _absorb(child.stdout, outcome)
        outcome.inputs += done
        if child.returncode == 0:
            first += size
        else:
            again = f"--target {name} --seed {seed} --child {first + done} 1"
            outcome.findings.append(
                f"exit {child.returncode}: python benchmarks fuzz {again}\n{child.stderr[-2000:]}"
            )
            outcome.inputs += 1
            first += done + 1
    return outcome


def _absorb(printed: str, outcome: Outcome) -> int:
    """Add up what a child printed; how many inputs it finished."""
    done = 0
    for line in printed.splitlines():
        verb, _, rest = line.partition(" ")
        if verb == "done":
            refused, seconds = rest.split()
            done += 1
            outcome.refused += int(refused)
            outcome.slowest = max(outcome.slowest, float(seconds))
        elif verb == "peak":
            outcome.peak = max(outcome.peak, int(rest))
    return done


def run_batch(target: Target, seed: int, first: int, count: int) -> None:
    """Run inputs in this process; the first finding ends it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGVTALRM, _too_slow)
    for number in range(first, first + count):
        started = time.process_time()
        used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
        resource.setrlimit(
            resource.RLIMIT_CPU, (used + 4 * int(SECONDS) + 2, resource.RLIM_INFINITY)
        )
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS if number > first else 4 * SECONDS)
        refused = False
        try:
            target(random.Random(f"{seed}/{number}"))
        except LagottoError:
            refused = True
        except Exception:  # noqa: BLE001 the finding itself
            traceback.print_exc()
            sys.exit(1)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        print(f"done {int(refused)} {time.process_time() - started:.4f}", flush=True)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")


def _too_slow(_: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {SECONDS} s of CPU time")


def report(outcomes: dict[str, Outcome]) -> int:
    """Print a table and the findings; 1 if there are any."""
    print(f"{'target':16} {'inputs':>8} {'refused':>8} {'slowest':>9} {'peak':>8} {'findings':>9}")
    for name, found in outcomes.items():
        row = f"{name:16} {found.inputs:8} {found.refused:8} {found.slowest:7.2f} s"
        print(f"{row} {found.peak // 1024:5} MB {len(found.findings):9}")
    for found in outcomes.values():
        for finding in found.findings[:20]:
            print(f"\n{finding}")
    return 1 if any(found.findings for found in outcomes.values()) else 0
