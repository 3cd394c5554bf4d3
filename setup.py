"""Builds the compiled room. Everything else is declared in pyproject.toml."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOM = (
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
# What `Producer.send` does for each record.
SENDING = ("deliveries", "shortcut")

# -fwrapv: numbers out of hostile bytes wrap around as Java's do, instead of being undefined.
COMPILED = [
    Extension(
        f"cordwood.wire.{module}",
        [f"src/cordwood/wire/{module}.py"],
        depends=[f"src/cordwood/wire/{each}.pxd" for each in ROOM],
        extra_compile_args=["-fwrapv"],
        optional=True,
    )
    for module in ROOM
] + [
    Extension(
        "cordwood.log.offset_map",
        ["src/cordwood/log/offset_map.py"],
        depends=["src/cordwood/log/offset_map.pxd"],
        optional=True,
    ),
    *(
        Extension(
            f"cordwood.client.producer.{module}",
            [f"src/cordwood/client/producer/{module}.py"],
            depends=[f"src/cordwood/client/producer/{each}.pxd" for each in SENDING]
            + [f"src/cordwood/wire/{each}.pxd" for each in ROOM],
            optional=True,
        )
        for module in SENDING
    ),
]


class BuildAllOrNothing(build_ext):
    """Without a C compiler the build warns, and the very same .py files run uncompiled: all of them, as they share
    C types with each other. (setuptools' own `optional` does not cover a compiler that is not there.)"""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except Exception as error:  # noqa: BLE001  # whatever stands for "there is no working compiler"
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []  # nothing to install
            self.warn(f"nothing is compiled, the interpreter takes over: {error}")


setup(ext_modules=cythonize(COMPILED, language_level=3), cmdclass={"build_ext": BuildAllOrNothing})
