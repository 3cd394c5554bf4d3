"""Assembles the pages of the documentation site from docs/ and the pages at the top of the repository.

python tools/assemble_docs.py FOLDER

Pages at the top move beside those in docs/ (the README as overview.md), with their links. Links to other files of the
repository become plain text: the site does not have them.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOP_PAGES = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "CHANGELOG.md": "changelog.md",
}

_LINK = re.compile(r"\[([^\[\]]+)\]\(([^()\s:]+)\)")


def main() -> None:
    assemble(Path(sys.argv[1]))


def assemble(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    places = {page.resolve(): page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*")}
    places |= {(ROOT / name).resolve(): Path(place) for name, place in TOP_PAGES.items()}
    for source, place in places.items():
        if source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            (folder / place).write_text(with_moved_links(text, source, place, places), encoding="utf-8")


def with_moved_links(text: str, source: Path, place: Path, places: Mapping[Path, Path]) -> str:
    def moved(link: re.Match[str]) -> str:
        label, target = link.groups()
        path, hash_sign, anchor = target.partition("#")
        found = places.get((source.parent / path).resolve()) if path else place
        if found is None or (path and (ROOT / "docs" / found).is_dir()):
            return label
        up = "../" * (len(place.parts) - 1)
        return f"[{label}]({f'{up}{found.as_posix()}' if path else ''}{hash_sign}{anchor})"

    return _LINK.sub(moved, text)


if __name__ == "__main__":
    main()
