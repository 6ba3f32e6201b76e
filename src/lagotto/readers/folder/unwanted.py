"""Files of a folder that are hardly meant to be searched: secrets, lock files, others' code."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from lagotto.readers.base import Source
from lagotto.readers.folder.skipped import SkipReason

SECRETS = (
    *(
        "*.pem",
        "*.ppk",
        "*.p12",
        "*.pfx",
        "*.jks",
        "*.keystore",
        "*.kdbx",
        "*.env",
        ".env",
        ".env.*",
    ),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".pgpass", ".htpasswd"),
    *(".npmrc", ".pypirc", ".git-credentials"),
)
LOCK_FILES = (
    *("*.lock", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "packages.lock.json"),
    *("gradle.lockfile", "go.sum", "bun.lockb"),
)
MINIFIED = ("*.min.js", "*.min.mjs", "*.min.css", "*.js.map", "*.mjs.map", "*.css.map")
PICTURES = ("*.svg",)
"""Text, but of drawings."""

BY_NAME: tuple[tuple[SkipReason, tuple[str, ...]], ...] = (
    ("secret", SECRETS),
    ("lock file", LOCK_FILES),
    ("minified", MINIFIED),
    ("unsupported", PICTURES),
)
VENDORED = frozenset(
    {"node_modules", "bower_components", "jspm_packages", "site-packages", "third_party", "Pods"}
)
GENERATED = frozenset({"__pycache__", "__pypackages__", "CVS"})
PACKAGE_FILES = ("go.mod", "composer.json", "Gemfile", "Cargo.toml")
"""Beside one of these, `vendor` holds the code of others. Elsewhere it may be about suppliers."""

PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY")
SCRIPTS = frozenset({".js", ".mjs", ".css"})
LONG_LINE = 1_000
HEAD = 8_192


def unwanted_folder(path: Path) -> SkipReason | None:
    """Why a folder is left out, if it is."""
    if path.name in GENERATED:
        return "generated"
    if path.name in VENDORED or (path / "pyvenv.cfg").exists():
        return "vendored"
    beside = path.name == "vendor" and any((path.parent / name).exists() for name in PACKAGE_FILES)
    return "vendored" if beside else None


def unwanted_name(name: str) -> SkipReason | None:
    """Why a file is left out because of its name, if it is."""
    folded = name.lower()
    for reason, patterns in BY_NAME:
        if any(fnmatchcase(folded, pattern) for pattern in patterns):
            return reason
    return None


def unwanted_content(source: Source) -> SkipReason | None:
    """Why a file is left out because of how it begins, if it is."""
    head = source.head(HEAD)
    if PRIVATE_KEY.search(head):
        return "secret"
    if source.suffix in SCRIPTS and max(map(len, head.split(b"\n"))) > LONG_LINE:
        return "minified"
    return None
