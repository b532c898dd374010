"""How rows of the operator table refuse a node, and whose code has done so."""

from __future__ import annotations

import os

import torch


class Unsupported(Exception):
    """A node has a form that the compiler does not take; PyTorch runs it instead.

    The message completes the sentence "aten.name falls back because ...".
    """


#: What a row raises for arguments that it does not expect.
MISFITS = (TypeError, KeyError, IndexError, AssertionError, ValueError, AttributeError)

#: The folder of PyTorch's own code.
PYTORCH = os.path.join(os.path.dirname(torch.__file__), "")
