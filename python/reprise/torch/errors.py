"""How rows of the operator table refuse a node."""

from __future__ import annotations


class Unsupported(Exception):
    """A node has a form that the compiler does not take; PyTorch runs it instead.

    The message completes the sentence "aten.name falls back because ...".
    """


#: What a row raises for arguments that it does not expect.
MISFITS = (TypeError, KeyError, IndexError, AssertionError, ValueError, AttributeError)
