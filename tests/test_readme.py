"""The README's examples run, and print what it says they print; its links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"```(\w+)([^\n]*)\n(.*?)```", re.DOTALL)


def test_examples_print_what_the_readme_shows() -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    namespace: dict[str, object] = {}
    printed, compared = None, 0
    for language, options, body in blocks:
        if language == "python" and "notest" not in options:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, "README.md", "exec"), namespace)
            printed = out.getvalue()
        elif language == "text":
            assert printed == body
            compared += 1
    assert compared >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
