"""What can be wrong with a statement, each as an exception that says what to change."""


class StatementError(Exception):
    """A statement that has no meaning: its parts don't fit, or a declaration contradicts itself."""


class ShapeError(StatementError, ValueError):
    """Two operands whose shapes don't fit; the message names both, with their symbolic shapes."""


class UndefinedValue(ArithmeticError):
    """No value at this input: a division by zero, a singular matrix, the root of a negative number."""


class NoMeaning(TypeError):
    """The number system at hand can't give this operation a meaning (an exponential of a field element, say)."""
