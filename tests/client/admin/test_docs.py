"""docs/client-admin.md says what is true: its examples are run in their order, on a node of their own."""

import re
from pathlib import Path

import cordwood.testing
from cordwood.client.blocking.admin import Admin

DOCS = Path(__file__).parents[3] / "docs" / "client-admin.md"


def test_the_examples_of_the_admin_client_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    with cordwood.testing.node() as node:
        for block in blocks:
            exec(block.replace("localhost:9092", node.bootstrap), names)
    assert isinstance(names["admin"], Admin)


def test_the_page_names_every_method() -> None:
    page = DOCS.read_text()
    methods = [name for name in dir(Admin) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"\b{name}\b", page)] == []
