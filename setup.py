"""Builds the compiled room. Everything else is declared in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, setup

# optional=True: without a C compiler the build warns, and the very same .py file runs uncompiled.
COMPILED = [
    Extension("cordwood.wire.records", ["src/cordwood/wire/records.py"], optional=True),
]

setup(ext_modules=cythonize(COMPILED, language_level=3))
