"""Builds the compiled modules. Everything else is declared in pyproject.toml.

With CORDWOOD_PURE=1 in the environment nothing is compiled: the wheel is pure Python.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PURE = os.environ.get("CORDWOOD_PURE") == "1"

WIRE = (
    "hashing",
    "batch_header",
    "record_stream",
    "records",
    "record_text",
    "columns",
    "column_input",
    "line_input",
    "batch_builder",
)
# The per-record path of `Producer.send`.
SENDING = ("deliveries", "shortcut")

# -fwrapv: integer overflow on malicious input wraps around as in Java, instead of being undefined.
COMPILED = [
    Extension(
        f"cordwood.wire.{module}",
        [f"src/cordwood/wire/{module}.py"],
        depends=[f"src/cordwood/wire/{each}.pxd" for each in WIRE],
        extra_compile_args=["-fwrapv"],
    )
    for module in WIRE
] + [
    Extension(
        "cordwood.log.offset_map",
        ["src/cordwood/log/offset_map.py"],
        depends=["src/cordwood/log/offset_map.pxd"],
    ),
    *(
        Extension(
            f"cordwood.client.producer.{module}",
            [f"src/cordwood/client/producer/{module}.py"],
            depends=[f"src/cordwood/client/producer/{each}.pxd" for each in SENDING]
            + [f"src/cordwood/wire/{each}.pxd" for each in WIRE],
        )
        for module in SENDING
    ),
]


class BuildAllOrNothing(build_ext):
    """Falls back to pure Python, with a warning, if there is no working C compiler. It is all or nothing because the
    modules share C types; setuptools' `optional` would skip single ones."""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except Exception as error:  # noqa: BLE001 - compilers fail in many ways
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            # Nothing to install, and nothing platform-specific.
            self.extensions = self.distribution.ext_modules = []
            self.warn(f"no working C compiler; building pure Python instead: {error}")


class TaggedWheel(bdist_wheel):
    """Tags the wheel after the build, when it is known whether it is platform-specific."""

    def run(self) -> None:
        self.run_command("build")
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()


setup(
    # The generated C goes into the build directory: inside the packages it would be installed.
    ext_modules=[] if PURE else cythonize(COMPILED, build_dir="build/cython", language_level=3),
    cmdclass={"build_ext": BuildAllOrNothing, "bdist_wheel": TaggedWheel},
)
