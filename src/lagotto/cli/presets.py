"""`presets`: the presets and their settings."""

from __future__ import annotations

from typing import Annotated

import typer

from lagotto.cli.options import AsJson
from lagotto.cli.output import print_json, stdout


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
