"""Sentences of the project follow those rules of "How we write" (CONTRIBUTING.md) that a program can check.

It checks docstrings of modules and public names, help texts, messages, log lines, comments and documents.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.rooms import HOUSE, ROOMS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = sorted(file for room in ROOMS for file in (HOUSE / room).rglob("*.py"))
MODULES = [".".join(file.relative_to(HOUSE).with_suffix("").parts) for file in FILES]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
"""Not docs/log/, which is a diary."""
MOST_WORDS = 25

# Where a sentence ends: also at a semicolon, and before the next item of a list.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`0-9])|:\n|;\s|\n(?=\S+: )|\n(?=[*-] |[0-9]\. )")
RULES = {
    "a clause as subject": re.compile(r"^(Who|What)\b(?!.*\?$)"),
    "whoever": re.compile(r"\b(who|what)ever\b|\bwhom\b", re.IGNORECASE),
    "too, at the end": re.compile(r", too\b"),
    "also not": re.compile(r"\balso (not|no)\b"),
    "not Kafka's word": re.compile(r"\b(anew|put out|heard of|beats|foretells?)\b"),
    "Of two, ...": re.compile(r"^Of (two|several|many|all|both)\b"),
    # Settings begin with gateway.groups as well.
    "the short name of a module": re.compile(
        rf"`(?!gateway\.groups\.)(?:{'|'.join(map(re.escape, MODULES))})\b[.a-zA-Z_]*`"
    ),
}


FRAGMENT = re.compile(r"(Who|Whose|What|How|Where|When|Which|Why|From|By|In|Of|Those)\b")
"""The docstring of a public name does not begin so."""


class Text(NamedTuple):
    """A text in a file."""

    line: int
    text: str


def texts(source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # Of settings and attributes.
            for first, second in zip(node.body, node.body[1:], strict=False):
                if isinstance(first, ast.AnnAssign | ast.Assign) and isinstance(second, ast.Expr):
                    yield Text(second.lineno, literal(second.value))
        elif isinstance(node, ast.Call) and speaks(node.func) and node.args:
            yield Text(node.lineno, literal(node.args[0]))
        elif isinstance(node, ast.keyword) and node.arg == "help":
            yield Text(node.value.lineno, literal(node.value))


def speaks(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id="log" | "_log")):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in {"say", "_say", "fail", "note", "step"} or name.endswith(("Error", "Failure"))
    return False


def literal(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(literal(value) for value in values)
        case ast.FormattedValue():
            return "X"
    return ""


def sentences(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        # Not the examples and drawings, which are indented, or marked for click.
        if not re.search(r"^( {2,}|\x08)", paragraph, re.MULTILINE):
            yield from (" ".join(sentence.split()) for sentence in SENTENCE_END.split(paragraph))


def comments(source: str) -> Iterator[Text]:
    """Comments, with what stands below each other as one."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = [
        Text(each.start[0], each.string.lstrip("# ")) for each in tokens if each.type == tokenize.COMMENT
    ]
    for _, together in groupby(enumerate(found), lambda each: each[1].line - each[0]):
        lines = [text for _, text in together]
        yield Text(lines[0].line, "\n".join(each.text for each in lines))


def docstrings(source: str) -> Iterator[Text]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring and not getattr(node, "name", "").startswith("_"):
                yield Text(node.body[0].lineno, docstring)


def prose(markdown: str) -> Iterator[str]:
    """Sentences of paragraphs and lists, without code, pictures and tables."""
    markdown = re.sub(r"^```.*?^```$|^(?: {4}|[|!#])[^\n]*$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|^[-*] |^[0-9]+\. |\s·\s", markdown, flags=re.MULTILINE):
        yield from (" ".join(each.split()) for each in SENTENCE_END.split(paragraph.replace("**", "")))


def broken(sentence: str) -> Iterator[str]:
    """The rules that a sentence breaks."""
    for rule, pattern in RULES.items():
        if pattern.search(sentence):
            yield f"{rule}: {sentence}"
    if len(sentence.split()) > MOST_WORDS:
        yield f"{len(sentence.split())} words: {sentence}"


def faults(source: str) -> Iterator[str]:
    for line, docstring in docstrings(source):
        if FRAGMENT.match(docstring):
            yield f"{line}: a fragment: {docstring.splitlines()[0]}"
    for line, text in sorted([*docstrings(source), *texts(source), *comments(source)]):
        for sentence in sentences(text):
            yield from (f"{line}: {each}" for each in broken(sentence))


def test_faults_are_found() -> None:
    source = '''
"""What is here is bad. It is good. What is it?

A list, too:
`streaming.worker` is short.

    What is an example.
"""

class Public:
    """Of this. Also not here, and also not there."""

    a: int = 1
    """Who reads this?"""

    def _private(self):
        """What a pity."""
        raise ValueError(f"Of two, {self} beats one")

async def public():
    # There is none. What is there
    # is read anew.
    log.warning("It was put out")
'''
    assert [each.partition(": ")[2] for each in faults(source)] == [
        "a fragment: What is here is bad. It is good. What is it?",
        "a fragment: Of this. Also not here, and also not there.",
        "a clause as subject: What is here is bad.",
        "too, at the end: A list, too",
        "the short name of a module: `streaming.worker` is short.",
        "also not: Also not here, and also not there.",
        "not Kafka's word: Of two, X beats one",
        "Of two, ...: Of two, X beats one",
        "a clause as subject: What is there is read anew.",
        "not Kafka's word: What is there is read anew.",
        "not Kafka's word: It was put out",
    ]


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("README.md", "A consumer group is a black box."),
        ("docs/design.md", "A group's lock is its state partition."),
    ],
)
def test_sentences_of_pages_are_found(file: str, sentence: str) -> None:
    assert sentence in "\n".join(prose((ROOT / file).read_text()))


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_pages_follow_the_rules(page: Path) -> None:
    assert [each for sentence in prose(page.read_text()) for each in broken(sentence)] == []


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(ROOT)) for file in FILES])
def test_sentences_follow_the_rules(file: Path) -> None:
    assert list(faults(file.read_text())) == []
