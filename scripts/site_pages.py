"""Pages of the site that are not in docs/: README, contributing, architecture, results...

They stay where a visitor of the repository looks for them; the site gets copies, with links that
lead to its own pages.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "results.md",
}
LINK = re.compile(r"\]\((?P<path>[\w./-]+\.md)(?P<anchor>#[\w-]+)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for name, page in PAGES.items():
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to pages of the site."""
    return LINK.sub(lambda link: f"]({_target(link['path'])}{link['anchor'] or ''})", markdown)


def _target(path: str) -> str:
    name = path.removeprefix("../")
    return PAGES.get(name, name.removeprefix("docs/"))
