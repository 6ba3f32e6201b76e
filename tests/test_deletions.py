"""Every place in the package that deletes, moves or replaces files, with the reason why it may.

A user's files are never touched. A new call has to be added here, with its reason.
"""

from __future__ import annotations

import ast
from pathlib import Path

import lagotto

ROOT = Path(lagotto.__file__).parent

NAMES = {"rmtree", "unlink", "rmdir", "remove", "rename", "replace", "move"}

ALLOWED = {
    ("cli/demo.py", "shutil.rmtree(folder)"): "a temporary folder that it has made",
    ("readers/language.py", "shutil.rmtree(folder, ignore_errors=True)"): (
        "tables in Lagotto's cache folder that can't be used"
    ),
    ("readers/language.py", "tables.rename(folder)"): "complete tables, into the cache",
    ("models/fetch.py", "part.unlink()"): "a download with the wrong hash",
    (
        "models/fetch.py",
        "part.replace(self.work / path)",
    ): "a complete download, in its work folder",
    ("models/fetch.py", "shutil.rmtree(target, ignore_errors=True)"): "in its work folder",
    ("models/fetch.py", "(work / path).unlink(missing_ok=True)"): (
        "downloads that can't be used, in their work folder"
    ),
    ("base/export.py", "temporary.replace(target)"): "the file that the user asked to write",
    ("base/export.py", "temporary.unlink(missing_ok=True)"): "its temporary file",
    ("models/files.py", "self.folder.rename(damaged)"): "a damaged model in the model cache",
    ("models/files.py", "unfinished.rename(self.folder)"): "a complete model, into the cache",
    ("models/files.py", "shutil.rmtree(damaged, ignore_errors=True)"): (
        "a damaged model, renamed by the lines above"
    ),
    ("models/fetch.py", "shutil.rmtree(leftover, ignore_errors=True)"): "work folders of a model",
    ("models/files.py", "Path(file.name).replace(target)"): "a hash in Lagotto's cache folder",
    ("models/fetch.py", "self.target.unlink(missing_ok=True)"): "a partial download",
    (
        "models/fetch.py",
        "self._etag_file.unlink(missing_ok=True)",
    ): "the ETag of a partial download",
    ("models/onnx.py", "path.unlink(missing_ok=True)"): (
        "a damaged copy in the model cache, known by the hash in its name"
    ),
    ("models/onnx.py", "draft.replace(target)"): "the name holds the hash of the content",
    ("indexes/folder.py", "index.rename(aside)"): "in a folder with this base's marker",
    ("indexes/folder.py", "shutil.rmtree(aside, ignore_errors=True)"): "renamed by the line above",
    ("indexes/folder.py", "marker.replace(self.path / INDEX_MARKER)"): "the marker itself",
    ("indexes/tantivy/index.py", "new.replace(folder / ANNOUNCEMENT)"): "a file of the text index",
    ("indexes/vectors/files.py", "shutil.rmtree(left)"): "an unfinished generation",
    ("indexes/vectors/files.py", "part.rename(folder / f'{number:08}')"): (
        "a generation that is complete gets its number"
    ),
    ("indexes/vectors/files.py", "shutil.rmtree(part, ignore_errors=True)"): (
        "a generation that could not be written"
    ),
    ("indexes/vectors/files.py", "shutil.rmtree(path)"): "an older generation",
    (
        "models/cache.py",
        "self.path.replace(aside)",
    ): "damaged, kept under this name",
    (
        "models/cache.py",
        "self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)",
    ): "SQLite's own files of a damaged cache",
    ("stores/sqlite/database.py", "path.unlink()"): (
        "a base that this command has created, without documents, under its exclusive lock"
    ),
}


def file_calls(path: Path) -> list[str]:
    """The calls in a module that may delete, move or replace a file; not those of strings."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _name(node.func) in NAMES and _takes_paths(node)
    ]


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _takes_paths(call: ast.Call) -> bool:
    """Path.replace has one argument, str.replace two, and replacing fields has names only."""
    if _name(call.func) not in ("replace", "remove"):
        return True
    module = ast.unparse(call.func).partition(".")[0]
    return module in ("os", "shutil") or (_name(call.func) == "replace" and _one_argument(call))


def _one_argument(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not call.keywords


def test_every_deletion_has_a_reason() -> None:
    found = {
        (str(path.relative_to(ROOT)), call)
        for path in sorted(ROOT.rglob("*.py"))
        for call in file_calls(path)
    }
    assert found - ALLOWED.keys() == set()
    assert ALLOWED.keys() - found == set()
