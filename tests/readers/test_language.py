from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from lagotto.errors import ReadError
from lagotto.readers import detect_language, language
from lagotto.readers.language import language_code

SENTENCES = [
    ("en", "The quick brown fox jumps over the lazy dog."),
    ("en", "Release notes for version two"),
    ("de", "Der schnelle braune Fuchs springt über den faulen Hund."),
    ("fr", "Le chat est sur la table et il dort."),
    ("es", "El gato está sobre la mesa y el perro duerme."),
    ("it", "Il gatto è sul tavolo e dorme."),
    ("pt", "O gato está em cima da mesa."),
    ("nl", "De kat ligt op de tafel en slaapt."),
    ("sv", "Katten ligger på bordet och sover."),
    ("fi", "Kissa on pöydällä ja nukkuu."),
    ("pl", "Kot leży na stole i śpi."),
    ("hu", "A macska az asztalon alszik."),
    ("ro", "Pisica doarme pe masă."),
    ("ru", "Москва является столицей России."),
    ("uk", "Кішка лежить на столі та спить."),
    ("tr", "Kedi masanın üzerinde uyuyor."),
    ("vi", "Con mèo đang ngủ trên bàn."),
    ("ar", "القطة نائمة على الطاولة."),
    ("fa", "گربه روی میز خوابیده است."),
    ("hi", "बिल्ली मेज पर सो रही है।"),
    ("id", "Kucing itu tidur di atas meja."),
    # a script that gives the language away needs only a word
    ("ja", "東京タワー"),
    ("ja", "猫は机の上で寝ています。"),
    ("zh", "猫在桌子上"),
    ("ko", "안녕"),
    ("el", "Η γάτα"),
    ("th", "แมวนอน"),
    ("he", "שלום"),
    ("ka", "გამარჯობა"),
    ("ta", "வணக்கம்"),
]


@pytest.mark.parametrize(("language", "sentence"), SENTENCES)
def test_sentences(language: str, sentence: str) -> None:
    assert detect_language(sentence) == language


@pytest.mark.parametrize(
    "text",
    ["", " ", "hello", "12345 67890 + 4711", "README", "Chapter 3", "asdf qwer zxcv", "x = f(y)"],
)
def test_unsure_is_none(text: str) -> None:
    assert detect_language(text) is None


def test_a_foreign_quotation_does_not_decide() -> None:
    text = "The word φιλοσοφία is Greek and means the love of wisdom, as everybody knows."
    assert detect_language(text) == "en"


def test_middle_and_end_count_in_long_texts() -> None:
    dull = "0123 " * 5000
    assert detect_language(dull + "Der Hund schläft unter dem Tisch. " * 40) == "de"


@given(st.text())
def test_any_text_is_a_code_or_none(text: str) -> None:
    language = detect_language(text)
    assert language is None or len(language) == 2


def test_language_tags() -> None:
    known = {"en-US": "en", " de_AT ": "de", "gsw": "gsw", "x": None, "English": None, None: None}
    assert {tag: language_code(tag) for tag in known} == known


ENGLISH = (
    "The committee has published its report on the state of the harbour, which was damaged by the "
    "storm. Most of these walls were built before the war, and they have been repaired since then."
)
GERMAN = "Der schnelle braune Fuchs springt über den faulen Hund."


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LAGOTTO_CACHE", str(tmp_path))
    language._identifier.cache_clear()
    yield tmp_path
    language._identifier.cache_clear()


def test_clear_english_needs_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "_identifier", None)
    assert detect_language(ENGLISH) == "en"
    with pytest.raises(TypeError):
        detect_language(f"{ENGLISH} {GERMAN * 3}")


def test_the_model_is_unpacked_once(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    assert detect_language(GERMAN) == "de"
    monkeypatch.setattr(language, "_unpack", None)
    language._identifier.cache_clear()
    for _, sentence in SENTENCES:
        assert language._identifier().rank(sentence) == packed.rank(sentence)
    assert len([*cache_folder.glob("languages/*")]) == 1


def test_a_damaged_table_is_unpacked_again(cache_folder: Path) -> None:
    assert detect_language(GERMAN) == "de"
    (table,) = cache_folder.glob("languages/*/nextmove.npy")
    table.write_bytes(table.read_bytes()[:1000])
    language._identifier.cache_clear()
    assert detect_language(GERMAN) == "de"


def test_a_cache_that_can_not_be_written(cache_folder: Path) -> None:
    (cache_folder / "languages").write_text("no folder")
    assert detect_language(GERMAN) == "de"


def test_a_full_disk_is_named(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("py3langid.langid.LanguageIdentifier.from_model_file", refuse)
    monkeypatch.setattr(language, "_unpack", refuse)
    with pytest.raises(ReadError, match=r"can't be unpacked in .* \(No space left on device\)"):
        detect_language("A text that is long enough for its language to be detected.")
