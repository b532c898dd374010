"""A module with names that have no documentation, for test_docstrings.py."""

from dataclasses import dataclass

__all__ = ["Class", "Fields", "Undocumented", "function", "undocumented"]


class Undocumented:
    pass


class Class:
    """A class.

    This example, which is no doctest, is found:

        x = Class(1)
    """

    def __init__(self, hidden: int) -> None:
        self._hidden = hidden

    @property
    def prop(self) -> int:
        return self._hidden

    @staticmethod
    def method() -> None:
        pass

    def __call__(self) -> None:
        pass


@dataclass
class Fields:
    """A class.

    Attributes:
        told: a field.
    """

    told: int
    untold: int


def undocumented() -> None:
    pass


def function(told: int, untold: int) -> None:
    """A function, which returns None.

    Args:
        told: a number.
    """
