import subprocess
import sys

import pytest

_PROGRAM = """
import gc, sys
from importlib.machinery import ModuleSpec
from types import ModuleType

main = ModuleType("__main__")
main.__spec__ = ModuleSpec(sys.argv[1], None)
sys.modules["__main__"] = main

from cordwood.spark.worker_garbage import spare_modules

before = gc.get_freeze_count()
spare_modules()
print(gc.get_freeze_count() - before > 1_000)
"""


@pytest.mark.parametrize(("program", "is_spared"), [("pyspark.daemon", "True"), ("somebodys.program", "False")])
def test_modules_are_frozen_for_garbage_collection_only_in_sparks_workers(program: str, is_spared: str) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == is_spared
