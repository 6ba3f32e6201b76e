"""Find the main content of a page, and the boilerplate in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lxml import etree

NO_TEXT = frozenset(
    (
        *("script", "style", "template", "noscript", "head", "svg", "iframe", "object", "embed"),
        *("canvas", "audio", "video", "map", "button", "select", "option", "datalist", "textarea"),
        *("input", "progress", "meter"),
    )
)
FURNITURE = frozenset({"nav", "aside", "form", "dialog"})
PAGE_FURNITURE = frozenset({"header", "footer"})
CONTENT = frozenset({"article", "main", "section"})
CONTAINERS = frozenset({"div", "section", "ul", "ol", "dl", "table", "p", "center"})

LINK_SHARE = 0.75
LINKS_NEEDED = 4

Skip = Callable[[etree._Element], bool]


def walk(root: etree._Element, skip: Skip) -> Iterator[tuple[str, etree._Element]]:
    """Yield start and end of every element below `root`, without recursion.

    A skipped element has "skip" as its only event: the text after it is content.
    """
    inside_skipped = False
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if element is None:
            continue
        if event == "start" and element is not root and skip(element):
            walker.skip_subtree()
            inside_skipped = True
        else:
            yield "skip" if inside_skipped else event, element
            inside_skipped = False


def has_no_text(element: etree._Element) -> bool:
    """Whether an element never holds readable text, such as a script."""
    return element.tag in NO_TEXT


def main_content(body: etree._Element) -> etree._Element:
    """The `<main>` element or one with that role, the only article, or else the whole body."""
    main = next(body.iter("main"), None)
    if main is None:
        main = next((item for item in body.iter() if item.get("role") == "main"), None)
    if main is not None:
        return main
    articles = list(body.iter("article"))
    return articles[0] if len(articles) == 1 else body


def boilerplate(root: etree._Element, *, whole_page: bool) -> Skip:
    """A predicate for the elements of `root` that are navigation, hidden, or link lists.

    On a `whole_page` header, footer and link lists are boilerplate. Inside a page's main element
    they are not: there, the header holds the title and links are content.
    """
    if not whole_page:
        return lambda element: has_no_text(element) or _is_furniture(element)
    dropped = _page_furniture(root)
    return lambda element: has_no_text(element) or _is_furniture(element) or element in dropped


def _is_furniture(element: etree._Element) -> bool:
    style = (element.get("style") or "").replace(" ", "").lower()
    return (
        element.tag in FURNITURE
        or element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or element.get("role") in ("navigation", "banner", "contentinfo", "search")
        or "display:none" in style
        or "visibility:hidden" in style
    )


@dataclass(slots=True)
class _Weight:
    """The amount of text in an open element so far, and how much of it is in links."""

    chars: int = 0
    link_chars: int = 0
    links: int = 0

    def add(self, other: _Weight) -> None:
        self.chars += other.chars
        self.link_chars += other.link_chars
        self.links += other.links

    @property
    def is_link_list(self) -> bool:
        return self.links >= LINKS_NEEDED and self.link_chars > LINK_SHARE * self.chars


def _page_furniture(root: etree._Element) -> set[etree._Element]:
    dropped: set[etree._Element] = set()
    weights = [_Weight()]
    content = 0
    for event, element in walk(root, lambda item: has_no_text(item) or _is_furniture(item)):
        if event == "start":
            content += element.tag in CONTENT
            weights.append(_Weight(chars=_length(element.text)))
        if event == "end":
            content -= element.tag in CONTENT
            weight = weights.pop()
            if element.tag == "a":
                weight = _Weight(weight.chars, link_chars=weight.chars, links=1)
            page_level = element.tag in PAGE_FURNITURE and not content
            if page_level or (element.tag in CONTAINERS and weight.is_link_list):
                dropped.add(element)
            else:
                weights[-1].add(weight)
        if event != "start":
            weights[-1].chars += _length(element.tail)
    return dropped


def _length(text: str | None) -> int:
    return len(text.strip()) if text else 0
