"""`models` and `presets`: what can be named."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from lagotto.cli.options import AsJson, option
from lagotto.cli.output import print_json, say, stdout
from lagotto.errors import ConfigError


def models(
    action: Annotated[
        Literal["fetch"] | None, typer.Argument(metavar="fetch", help="Fetch a model.")
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the model.")] = None,
    source: str | None = option(
        "Fetch from a folder, or another hub.", flag="--from", metavar="FOLDER|URL"
    ),
    quantise: bool = option("Make the 8-bit model, NAME-int8.", default=False),
    as_json: AsJson = False,
) -> None:
    """List the known embedding models, or fetch one of them."""
    if action is None:
        if source is not None or quantise:
            raise ConfigError("--from and --quantise belong to `lagotto models fetch NAME`")
        _list(as_json=as_json)
    elif name is None:
        raise ConfigError("missing name of the model; write `lagotto models fetch NAME`")
    else:
        _fetch(name, source=source, quantise=quantise, as_json=as_json)


def _list(*, as_json: bool) -> None:
    from lagotto.embedders.catalog import MODELS
    from lagotto.models.fetch import model_status

    found = [(model, model_status(name)) for name, model in MODELS.items()]
    if as_json:
        print_json(
            [
                {
                    **model.config.info.model_dump(mode="json"),
                    **status.model_dump(mode="json"),
                    "languages": model.languages,
                    "megabytes": model.megabytes,
                    "repository": model.repository,
                }
                for model, status in found
            ]
        )
        return
    from lagotto.cli.render import print_table

    rows = [
        (
            model.name,
            status.state,
            str(model.config.dimension),
            str(model.config.max_tokens),
            str(model.megabytes),
            model.languages,
        )
        for model, status in found
    ]
    print_table(
        stdout(), ("name", "state", "dimension", "tokens", "MB", "languages"), rows, whole="name"
    )


def _fetch(name: str, *, source: str | None, quantise: bool, as_json: bool) -> None:
    from lagotto.cli.progress import FetchMeter
    from lagotto.models.fetch import fetch_model

    with FetchMeter() as meter:
        folder = fetch_model(name, source=source, quantise=quantise, progress=meter)
    fetched = f"{name}-int8" if quantise and not name.endswith("-int8") else name
    if as_json:
        print_json({"name": fetched, "folder": str(folder)})
    else:
        say(f"{fetched} is in {folder}; use it with --embedder {fetched}")


def presets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the settings of this preset.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets, or show the settings of one as TOML.

    The TOML is a file for --prefs: save it and change it to your needs.
    """
    from lagotto.presets import load_preset, preset_names

    if name is not None:
        preset = load_preset(name)
        if as_json:
            print_json({**preset.model_dump(exclude={"toml"}), "settings": preset.settings})
        else:
            typer.echo(preset.toml, nl=False)
        return
    found = [load_preset(name) for name in preset_names()]
    if as_json:
        print_json([preset.model_dump(exclude={"toml"}) for preset in found])
        return
    from lagotto.cli.render import print_table

    rows = [(preset.name, preset.description) for preset in found]
    print_table(stdout(), ("name", "description"), rows, whole="name")
