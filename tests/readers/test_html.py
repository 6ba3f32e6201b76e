from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.errors import EmptySourceError
from lagotto.readers import read_bytes, read_text
from lagotto.testing.readers import check_structure
from tests.readers.samples import HTML, only, texts


def read(html: str) -> Document:
    [document] = read_text(html, kind="html")
    return document


def test_the_main_content_its_structure_and_what_the_head_says() -> None:
    document = only(HTML, "cats.html")
    assert document.text == (
        "Cats\n\nCats sleep a lot,\nreally & truly.\n\nFacts\n\n"
        "cat | hours\nTom | 16\nKit | 14\n\n"
        "- eat\n- sleep\n  - deeply\n\nif cat:\n    nap()"
    )
    assert (document.title, document.summary) == ("On cats", "All about cats")
    assert (document.language, document.metadata) == ("en", {"author": "Ann"})
    assert document.created_at == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert [(h.title, h.level) for h in document.headings] == [("Cats", 1), ("Facts", 2)]
    assert texts(document, "table") == ["cat | hours", "Tom | 16", "Kit | 14"]
    assert texts(document, "list") == ["- eat", "- sleep\n  - deeply"]
    assert texts(document, "code") == ["if cat:\n    nap()"]


LONG = "This is a paragraph with quite a few words in it, so that nobody takes it for a menu. " * 4


def test_page_furniture_goes() -> None:
    document = read(
        f"<header>Banner</header><nav>Menu</nav><div hidden>a</div><p style='display: none'>b</p>"
        f"<span aria-hidden=true>c</span><h1>Title</h1><p>{LONG}</p><aside>Ads</aside>"
        "<form>Name <input value=x></form><noscript>No</noscript><footer>Imprint</footer>"
    )
    assert document.text == f"Title\n\n{LONG.strip()}"


def test_blocks_of_links_go_but_links_in_text_stay() -> None:
    menu = "".join(f"<li><a href=/{n}>Menu entry {n}</a></li>" for n in range(8))
    document = read(f"<div><ul>{menu}</ul></div><p>{LONG} <a href=x>A link</a> here.</p>")
    assert document.text == f"{LONG.strip()} A link here."


def test_links_inside_main_and_a_header_inside_the_article_stay() -> None:
    links = "".join(f"<li><a href=/{n}>Paper {n}</a></li>" for n in range(8))
    document = read(f"<main><p>{LONG}</p><ul>{links}</ul></main>")
    assert len(texts(document, "list")) == 8
    document = read(f"<header>Site</header><article><header><h1>T</h1></header>{LONG}</article>")
    assert document.text == f"T\n\n{LONG.strip()}"


@pytest.mark.parametrize("tag", ["nav", "form", "header", "aside", "div hidden"])
def test_a_page_is_never_lost(tag: str) -> None:
    document = read(f"<body><{tag}><h1>All there is</h1><p>{LONG}</p><script>x()</script>")
    assert document.text == f"All there is\n\n{LONG.strip()}"


def test_page_of_links_is_kept() -> None:
    links = "".join(f"<li><a href=/{n}>Story number {n}</a></li>" for n in range(30))
    assert "Story number 29" in read(f"<ul>{links}</ul>").text


def test_layout_tables_and_lists_only_arrange() -> None:
    document = read(
        f"<table><tr><td><h2>Left</h2><p>{LONG}</p></td><td><table><tr><td>1<td>2</table></td></tr>"
        "</table><ul><li><h3>Card</h3><p>text</p></li></ul>"
    )
    assert [h.title for h in document.headings] == ["Left", "Card"]
    assert texts(document, "table") == ["1 | 2"]
    assert [block.kind for block in document.blocks] == ["table"]


def test_code_inside_a_list_keeps_its_lines_and_inline_elements_do_not_split_words() -> None:
    document = read("<ol><li>run <pre>a\n  b</pre> now</li><li>stop<br>there</li></ol>")
    assert texts(document, "list") == ["- run\n  a\n    b\n  now", "- stop there"]
    assert read("<p>un<b>believ</b>able<i>!</i></p>\n\n<p> x </p>").text == "unbelievable!\n\nx"


def test_declared_encoding() -> None:
    html = '<meta http-equiv="Content-Type" content="text/html; charset=windows-1250"><p>ďábel'
    [document] = read_bytes(html.encode("cp1250"), name="x.html")
    assert document.text == "ďábel"
    html = "<?xml version='1.0' encoding='latin-1'?><meta charset=koi8-r><p>Grüße"
    assert read(html).text == "Grüße"  # a string is not decoded again


@pytest.mark.parametrize(
    "html", ["", " \n", "<!-- only -->", "<script>x</script>", "<p> &nbsp;</p>"]
)
def test_no_text(html: str) -> None:
    with pytest.raises(EmptySourceError):
        read(html)


def test_no_closing_tags() -> None:
    document = read("<html><body><h1>One</h1><p>two<p>three<ul><li>four<li>five<br>six<hr>seven")
    assert document.text == "One\n\ntwo\n\nthree\n\n- four\n- five six seven"


TAGS = ["p", "div", "h1", "h2", "ul", "ol", "li", "table", "tr", "td", "th", "pre", "b", "br", "a"]
TAGS += ["main", "article", "nav", "script", "span hidden", "title", "body", "section", "header"]
MARKUP = st.one_of(
    st.sampled_from([f"<{tag}>" for tag in TAGS]),
    st.sampled_from([f"</{tag}>" for tag in TAGS]),
    st.sampled_from(["word ", "&amp;", "&nbsp;", "\n", "&bogus;", "<", ">", "<!--", "-->", "\0"]),
)


@given(st.lists(MARKUP, max_size=60).map("".join))
def test_spans_fit_whatever_is_written(html: str) -> None:
    try:
        document = read(html)
    except EmptySourceError:
        return
    check_structure(document)


CELLS = st.text("ab <&1", max_size=5)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=4))
def test_rows_hold_their_cells(rows: list[list[str]]) -> None:
    escaped = [[cell.replace("&", "&amp;").replace("<", "&lt;") for cell in row] for row in rows]
    written = "".join(f"<tr><td>{'<td>'.join(row)}</tr>" for row in escaped)
    document = read(f"<p>intro</p><table>{written}</table>")
    kept = [[" ".join(cell.split()) for cell in row] for row in rows]
    found = [document.text[p.start : p.end] for b in document.blocks for p in b.parts]
    assert found == [" | ".join(row) for row in kept if any(row)]
