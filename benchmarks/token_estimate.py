"""How far is the token estimate of the MCP server from what a tokenizer counts?

    python benchmarks/token_estimate.py --tokenizer tokenizer.json

The file is one of the `tokenizers` library: that of any open model, or `anthropic/tokenizer.json`
in the wheel of anthropic 0.18.1.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
from pathlib import Path

from tokenizers import Tokenizer

from lagotto.demo import corpus
from lagotto.mcp.budget import estimate
from lagotto.mcp.quotation import quoted

SENTENCES = {
    "Chinese": "拉戈托罗马阁挪露犬是一种古老的意大利水犬品种,用于狩猎水禽和寻找松露。",
    "Thai": "สุนัขพันธุ์ลากอตโต โรมาญโญโล เป็นสุนัขที่ใช้ค้นหาเห็ดทรัฟเฟิล",
    "Arabic": "كلب الماء الإيطالي يستخدم للبحث عن الكمأة في الغابات ",
    "Russian": "Лаготто — старинная порода собак, выведенная для поиска трюфелей. ",
    "German": "Rechtsschutzversicherungen übernehmen Donaudampfschifffahrtskosten. ",
    "emoji": "😀🎉🚀",
}


def samples() -> dict[str, str]:
    """Texts of many kinds, each long enough for a ratio."""
    made = random.Random(1)
    with corpus() as folder:
        markdown = "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("c*.md")))
    code = Path(__file__).read_text("utf-8")
    letters = "".join(made.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=4_000))
    return {
        "Markdown": markdown,
        "Markdown, quoted, as JSON": json.dumps(quoted(markdown), ensure_ascii=False),
        "Python": code,
        "Python, quoted, as JSON": json.dumps(quoted(code), ensure_ascii=False),
        "citation keys": " ".join(f"key=c/{made.randbytes(16).hex()}#0-9" for _ in range(99)),
        "base64": base64.b64encode(made.randbytes(6_000)).decode(),
        "hexadecimal": made.randbytes(4_000).hex(),
        "digits": "".join(made.choices("0123456789", k=4_000)),
        "random letters": letters,
        **{name: sentence * 40 for name, sentence in SENTENCES.items()},
    }


def main() -> None:
    """Print the ratio of the estimate to the count, by kind of text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", required=True, metavar="FILE")
    tokenizer = Tokenizer.from_file(parser.parse_args().tokenizer)
    for name, text in samples().items():
        counted = len(tokenizer.encode(text, add_special_tokens=False).ids)
        print(f"{name:26} {estimate(text) / counted:.2f}")


if __name__ == "__main__":
    main()
