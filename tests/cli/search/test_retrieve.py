from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from lagotto.cli.output import stdout, warn
from lagotto.cli.render import print_hit, print_table
from lagotto.results import LegScore, RetrievalResult, ScoreBreakdown
from tests.cli.running import run, run_apart

pytestmark = pytest.mark.slow

HIT = RetrievalResult(
    rank=1,
    score=0.5,
    content="A wolf.\n\nTwo \x1b[31mdogs\x07, one [bold]cat[/bold]. "
    + "More words follow here. " * 30,
    chunk_id="c",
    document_id="d",
    document_title="Of dogs\x1b[2J",
    document_source="dogs.md",
    collection="default",
    language="en",
    start=0,
    end=5,
    breakdown=ScoreBreakdown(
        semantic=LegScore(score=0.6, weight=0.5),
        text=LegScore(score=9, rank=2, weight=0.5),
        fuzzy=LegScore(score=7, rank=1, weight=0),
    ),
)


def terminal(width: int = 60) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system="standard")


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_plain_results(base: Path) -> None:
    done = run("--kb", base, "retrieve", "which dog finds truffles?", "--top-k", "2")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[0].startswith(" 1. 0.")
    assert lines[0].endswith("  Doc: Dogs | Section: Dogs")
    assert lines[1].startswith("    semantic 0.")
    assert lines[2] == "    # Dogs The Lagotto Romagnolo was bred for finding truffles."
    assert lines[4].startswith(" 2. 0.")
    assert len(lines) == 8
    assert "\x1b" not in done.out


def test_json_in_a_process_of_its_own(base: Path) -> None:
    done = run_apart("--kb", base, "retrieve", "2067", "--mode", "keyword", "--json")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    (hit,) = answer.pop("results")
    assert answer == {"query": "2067", "mode": "keyword", "degraded": [], "corrections": {}}
    assert set(hit) == {*RetrievalResult.model_fields, "citation"}
    assert hit["citation"] == "Doc: codes"
    assert hit["metadata"] == {"year": 2024}


@pytest.mark.parametrize(
    ("options", "titles"),
    [
        (["--filters", '{"language": "de"}'], {"Bergwandern"}),
        (["--filters", '{"year": {"$lt": 2000}}'], set()),
        (["--collection", "other"], set()),
        (["--top-k", "1"], {"Truffles"}),
        (["--set", "scoring.blend=rrf", "--top-k", "1"], {"Truffles"}),
        (["--set", 'boost={"where": {"title": "Dogs"}, "factor": 9}', "--top-k", "1"], {"Dogs"}),
    ],
    ids=str,
)
def test_options_narrow_the_search(base: Path, options: list[str], titles: set[str]) -> None:
    answer = run("--kb", base, "retrieve", "white truffle", "--json", *options).json
    assert {hit["document_title"] for hit in answer["results"]} == titles


def test_misspelt_words_are_corrected_unless_told_otherwise(base: Path) -> None:
    query = ["retrieve", "lagoto", "--mode", "keyword", "--json"]
    assert len(run("--kb", base, *query).json["results"]) == 1
    assert run("--kb", base, *query, "--set", "fuzzy.mode=off").json["results"] == []


def test_words_match_in_the_language_of_their_document(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    done = run("--kb", base, "retrieve", "das Wandern", "--mode", "keyword")
    assert "Wanderer" in done.out


def test_nothing_found_is_no_error(base: Path) -> None:
    done = run("--kb", base, "retrieve", "zebra", "--mode", "keyword", "--set", "fuzzy.mode=off")
    assert (done.code, done.out, done.err) == (0, "", "nothing was found\n")


def test_a_wrong_filter_is_explained(base: Path) -> None:
    done = run("--kb", base, "retrieve", "x", "--filters", "{")
    assert done.code == 2
    assert done.err.startswith("lagotto: the filter '{' is not JSON")
    assert len(done.err.splitlines()) == 1


def test_a_document_gives_no_orders_to_the_terminal() -> None:
    console = terminal()
    print_hit(console, HIT, query="dog")
    shown = written(console)
    assert "\x1b[31m" not in shown
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown
    assert "[bold]cat[/bold]" in shown


def test_matching_words_are_marked_on_a_terminal() -> None:
    console = terminal()
    print_hit(console, HIT, query="dog")
    assert "\x1b[1;33mdogs\x1b[0m" not in written(console)  # control characters hug the word
    calm = HIT.model_copy(update={"content": "Two dogs."})
    print_hit(console, calm, query="dog")
    assert "Two \x1b[1;33mdogs\x1b[0m." in written(console)
    assert "semantic 0.60  text 9.00 (#2)  dogs.md  d" in written(console)


def test_a_table_keeps_the_column_that_must_be_whole() -> None:
    console = terminal(width=40)
    print_table(console, ("id", "title"), [("i" * 30, "t" * 50)], whole="id")
    assert "i" * 30 in written(console)
    assert all(len(line) <= 40 for line in written(console).splitlines()[1:])


def test_columns_are_aligned_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(stdout(), ("a", "b"), [("東京", "x"), ("long", "y" * 200)])
    assert capsys.readouterr().out.splitlines() == ["a     b", "東京  x", "long  " + "y" * 200]


def test_degraded_searches_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    warn(("text: no index",))
    assert capsys.readouterr() == ("", "warning: text: no index\n")


def test_a_preset(base: Path) -> None:
    answer = run("--kb", base, "retrieve", "white truffle", "--preset", "oasis", "--json").json
    assert answer["results"][0]["breakdown"]["fused"] < 0.05


def test_preferences_from_a_file_and_from_the_environment(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prefs.toml"
    file.write_text('top_k = 1\n[scoring]\nblend = "rrf"\n', encoding="utf-8")
    monkeypatch.setenv("LAGOTTO_RETRIEVAL_TOP_K", "2")
    query: list[str | Path] = ["--kb", base, "retrieve", "white truffle", "--json"]
    assert len(run(*query).json["results"]) == 2
    assert len(run(*query, "--prefs", file).json["results"]) == 1
    assert len(run(*query, "--prefs", file, "--top-k", "3").json["results"]) == 3
    done = run(*query, "--prefs", file, "--preset", "oasis")
    assert (done.code, done.err) == (
        2,
        "lagotto: give --preset or --prefs, not both: a file may name a preset itself\n",
    )


@pytest.mark.parametrize("setting", ["top_k=0", "scoring.nonsense=1", "nonsense", "mode=all"])
def test_wrong_settings_are_explained(base: Path, setting: str) -> None:
    done = run("--kb", base, "retrieve", "x", "--set", setting)
    assert done.code == 2
    assert setting.partition("=")[0].split(".")[-1] in done.err
    assert len(done.err.splitlines()) == 1


def test_explain_names_corrected_words(base: Path) -> None:
    done = run("--kb", base, "retrieve", "Romagnollo", "--explain", "--top-k", "1")
    assert "corrected: romagnollo -> romagnolo" in done.err.splitlines()
    assert not any(line.strip().startswith("text ") for line in done.out.splitlines())
    found = run("--kb", base, "retrieve", "Romagnollo", "--json").json
    assert found["corrections"] == {"romagnollo": ["romagnolo"]}


def test_explain_shows_numbers_that_add_up(base: Path) -> None:
    done = run("--kb", base, "retrieve", "white truffle", "--explain", "--top-k", "1")
    parts = [float(line.rpartition("= ")[2]) for line in done.out.splitlines() if " = " in line]
    (fused,) = re.findall(r"fused (\d\.\d+)", done.out)
    assert sum(parts) == pytest.approx(float(fused), abs=2e-4)


def test_why_not(base: Path) -> None:
    query: list[str | Path] = ["--kb", base, "retrieve", "white truffle", "--top-k", "1"]
    everything = run(*query[:4], "--json").json["results"]
    last = everything[-1]["document_id"]
    done = run(*query, "--why-not", last)
    assert done.err.startswith(f"{last}: its best passage scores ")
    assert run(*query, "--why-not", last, "--json").json["why_not"]["rank"] == len(everything)
    title = everything[-1]["document_title"]
    path = Path(everything[-1]["document_source"]).name
    for name in (title, path, last[:8]):
        assert run(*query, "--why-not", name).err == done.err
    assert "no document" in run(*query, "--why-not", "nobody").err


def test_short_options(base: Path) -> None:
    short = run("--kb", base, "retrieve", "truffle", "-k", "1", "--filter", "kind=markdown")
    long = ("--top-k", "1", "--filters", '{"kind": "markdown"}')
    assert short == run("--kb", base, "retrieve", "truffle", *long)
    assert short.out.startswith(" 1. ")


@pytest.mark.parametrize("verb", ["retrieve", "search", "context"])
def test_a_misspelt_collection_or_value_is_noted(base: Path, verb: str) -> None:
    done = run("--kb", base, verb, "truffle", "--collection", "defautl")
    assert "no document has collection 'defautl'; did you mean 'default'?" in done.err
    done = run("--kb", base, verb, "truffle", "--filter", "kind=markdwon")
    assert "no document has kind 'markdwon'; did you mean 'markdown'?" in done.err
    strict = run("--kb", base, verb, "truffle", "--collection", "defautl", "--set", "strict=true")
    assert strict.code == 0


def test_a_syntax_error_is_shown_where_it_is(base: Path) -> None:
    done = run("--kb", base, "retrieve", "truffle & (", "--set", "fts.mode=strict")
    assert done.code == 2
    _, shown, pointer = done.err.splitlines()
    assert shown.strip() == "truffle & ("
    assert pointer.index("^") == len(shown)


def test_a_pack_with_citations_that_can_be_shown(base: Path) -> None:
    done = run("--kb", base, "context", "white truffle", "--max-tokens", "200")
    assert done.code == 0
    assert done.out.startswith("[1] Doc: Truffles")
    first = done.err.splitlines()[0]
    assert first.startswith("[1] default/")
    shown = run("--kb", base, "show", first.removeprefix("[1] "))
    assert shown.code == 0
    assert shown.out.splitlines()[0].startswith("Doc: Truffles")
    assert "truffle" in shown.out
    as_json = run("--kb", base, "show", first.removeprefix("[1] "), "--json").json
    assert as_json["text"] in done.out


def test_a_pack_stops_where_evidence_does_unless_it_is_to_be_filled(base: Path) -> None:
    command: list[str | Path] = ["--kb", base, "context", "white truffle", "--max-tokens", "200"]
    short, full = run(*command), run(*command, "--fill")
    assert short.err.splitlines()[-1].startswith("note: stopped at a score of ")
    assert "note: stopped" not in full.err
    assert len(full.out) > len(short.out)


def test_as_json(base: Path) -> None:
    pack = run("--kb", base, "context", "white truffle", "--format", "xml", "--json").json
    assert pack["context_pack"].startswith("<passages>")
    assert pack["tokens"] == pack["trace"]["final_token_count"]
    assert len(pack["citations"]) <= len(pack["selected_chunks"])


def test_nothing_found(base: Path) -> None:
    done = run("--kb", base, "context", "zebra", "--mode", "keyword", "--set", "fuzzy.mode=off")
    assert (done.code, done.out) == (0, "")
    assert "0 citations" in done.err


def test_a_citation_of_nothing(base: Path) -> None:
    done = run("--kb", base, "show", "default/nobody#0-5")
    assert done.code == 2
    assert "no such document" in done.err
