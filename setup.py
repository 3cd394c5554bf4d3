"""Builds the compiled room. Everything else is declared in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOM = ("batch_header", "record_stream", "records", "columns")

# optional=True: without a C compiler the build warns, and the very same .py files run uncompiled.
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
    )
]

setup(ext_modules=cythonize(COMPILED, language_level=3))
