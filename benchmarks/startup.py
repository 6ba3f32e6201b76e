"""Measure what one command costs: the CPU time of `lagotto search` on a small base, by stage.

    python benchmarks startup --runs 15
    python benchmarks startup --base notes.db --question "how are notes sorted?"
    python benchmarks startup --documents notes/ --before ../lagotto-before/src

Every run is a process of its own, user and system time of all its threads together. The stages run
one after another in one process; what the libraries alone take, in others, is the floor. With
`--before` the command of another checkout is run in turns with this one, unless there is a `--base`
on a base of its own, since an earlier version can't open what a later one has made.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from lagotto.cli import COLLECT_AFTER, DEFAULTS
from lagotto.embedders.onnx import MINILM

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "docs" / name for name in ("filters.md", "terms.md", "getting-started.md")]

BEFORE = f"import gc; gc.set_threshold({COLLECT_AFTER})"
"""The garbage collector as the command line has it."""

STAGES = {
    "interpreter": "import sys",
    "command line": """
from lagotto.cli.app import app
import lagotto.cli.search""",
    "settings": """
from lagotto.prefs import RetrievalPrefs
prefs = RetrievalPrefs.from_env()""",
    "numpy": "import numpy",
    "knowledge base": "from lagotto.base.blocking import KnowledgeBase",
    "open the base": "kb = KnowledgeBase(base)",
    "words": "kb.retrieve(question, prefs=prefs, mode='keyword')",
    "words, again": "kb.retrieve(question, prefs=prefs, mode='keyword')",
    "model and vectors": "bundle = kb.search(question, prefs=prefs)",
    "hybrid, again": "bundle = kb.search(question, prefs=prefs)",
    "print": """
from lagotto.cli.output import stdout
from lagotto.cli.render import print_document
for number, item in enumerate(bundle.candidates, 1):
    own = [one for one in bundle.evidence if one.item_id == item.item_id]
    print_document(stdout(), item, own, number=number, query=question)""",
    "close": "kb.close()",
}
"""The parts of `search` in their order; `again` is what a search costs in a running process."""

MODEL = """
from pathlib import Path
import numpy, onnxruntime, tokenizers
folder = Path(model)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(
    str(folder / "onnx/model.onnx"), options, providers=["CPUExecutionProvider"]
)
text = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode(question)
known = {"input_ids": text.ids, "attention_mask": text.attention_mask}
known["token_type_ids"] = text.type_ids
session.run(
    None, {item.name: numpy.array([known[item.name]]) for item in session.get_inputs()}
)"""

LIBRARIES = """
import asyncio, sqlite3, typer, pydantic, tantivy"""

FLOOR = {
    "numpy": "import numpy",
    "numpy, onnxruntime, tokenizers": "import numpy, onnxruntime, tokenizers",
    "these, the model, one question": MODEL,
    "other libraries imported": LIBRARIES,
    "both": LIBRARIES + MODEL,
}
"""What the libraries take for a question, without any code of Lagotto."""


def main() -> None:
    """Print the whole command, its stages and the floor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--base", help="an existing base [default: one of the documents]")
    parser.add_argument(
        "--documents", nargs="+", default=DOCUMENTS, help="[default: three pages of the docs]"
    )
    parser.add_argument("--question", default="which operators have filters?")
    parser.add_argument("--filters", help="search under this filter too, as JSON")
    parser.add_argument("--before", type=Path, help="the folder `src` of another checkout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sources = {"lagotto search": ROOT / "src"}
        if options.before:
            sources["lagotto search, before"] = options.before
        commands: dict[str, tuple[list[str], Path]] = {}
        for number, (name, source) in enumerate(sources.items()):
            base = options.base or _small_base(
                Path(folder) / f"{number}.db", options.documents, source
            )
            command = ["-m", "lagotto", "--kb", base, "search", options.question]
            commands[name] = command, source
            if options.filters:
                commands[f"{name}, filtered"] = [*command, "--filters", options.filters], source
            _cpu(command, source)  # compiles modules, and brings the indexes up to date
        base = commands["lagotto search"][0][3]
        whole: dict[str, list[float]] = {name: [] for name in commands}
        stages: list[dict[str, float]] = []
        floor: dict[str, list[float]] = {name: [] for name in FLOOR}
        given = f"base, question, model = {base!r}, {options.question!r}, {str(MINILM.find())!r}\n"
        for _ in range(options.runs):
            for name, (command, source) in commands.items():
                whole[name].append(_cpu(command, source))
            stages.append(_staged(given))
            for name, code in FLOOR.items():
                program = f"{BEFORE}\n{given}{code}\ngc.freeze()"
                floor[name].append(_cpu(["-c", program], ROOT / "src", **DEFAULTS))
    for name, seconds in whole.items():
        _show(name, seconds)
    print()
    for name in STAGES:
        _show(f"  {name}", [run[name] for run in stages])
    print("\nfloor")
    for name, seconds in floor.items():
        _show(f"  {name}", seconds)


def _small_base(path: Path, documents: Sequence[str | Path], source: Path) -> str:
    _cpu(["-m", "lagotto", "--kb", str(path), "add", *map(str, documents)], source)
    return str(path)


def _cpu(arguments: Sequence[str], source: Path, **settings: str) -> float:
    """Seconds of CPU time of Python with `arguments`, and Lagotto from `source`."""
    child = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(PYTHONPATH=str(source.absolute()), **settings),
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{arguments} failed with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def _environment(**settings: str) -> dict[str, str]:
    """As it is, but modules are compiled only once."""
    environment = {**os.environ, **settings}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _staged(given: str) -> dict[str, float]:
    """CPU seconds of each stage, in one process."""
    lines = [BEFORE, "import time", given]
    for number, code in enumerate(STAGES.values()):
        lines += [code, f"t{number} = time.process_time()"]
    times = ", ".join(f"t{number}" for number in range(len(STAGES)))
    lines.append(f"print('TIMES', {times})")
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=True,
        env=_environment(**DEFAULTS),  # as the command sets it
    )
    ends = [float(end) for end in ran.stdout.split("TIMES")[1].split()]
    starts = [0.0, *ends]
    return {name: end - start for name, start, end in zip(STAGES, starts, ends, strict=False)}


def _show(name: str, seconds: Sequence[float]) -> None:
    print(f"{name:34} {min(seconds) * 1000:6.0f} ms  median {median(seconds) * 1000:6.0f}")
