"""Replaces Cython's module `cython` where Cython is not installed, so that files written for it run interpreted.

The compiler removes `import cython`, so compiled modules load neither. Interpreted, these files use nothing but
`cython.compiled`.
"""

compiled = False
