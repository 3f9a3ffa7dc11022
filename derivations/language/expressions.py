"""Matrix expressions that stay as they were written: SymPy's classes, with shapes checked at every operator.

`@` is the matrix product, `*` scales by a scalar, `.hadamard` multiplies entry by entry, `.T` transposes and `.I`
inverts. Every node is an instance of SymPy's own class for it (`MatMul`, `MatAdd`, ...), so that `subs`, `latex` and
`as_explicit`
work on it. What differs is the construction: SymPy's operators evaluate at once (`A.I * A` collapses, sums are
sorted) and let two
different symbolic dimensions pass; these don't.
"""

from __future__ import annotations

from itertools import pairwise
from collections.abc import Sequence
from typing import Any

from sympy import Add, Basic, Expr, Float, Identity, MatrixExpr, Mul, S, Symbol, ZeroMatrix, sympify
from sympy.matrices.expressions import DiagMatrix, HadamardProduct, Inverse, MatAdd, MatMul, Transpose
from sympy.matrices.expressions.special import OneMatrix

from derivations.language.errors import ShapeError, StatementError
from derivations.language.printing import LATEX, TEXT, factor_of, latex_of, text_of

Shape = tuple[Expr, Expr]


def shape_text(shape: Shape) -> str:
    """`n x d_k`."""
    return f"{shape[0]} x {shape[1]}"


def product_shape(left: Shape, right: Shape, names: tuple[str, str] = ("left", "right")) -> Shape:
    """The shape of a matrix product, or a ShapeError that names both operands."""
    if left[1] != right[0]:
        raise ShapeError(
            f"can't multiply {names[0]} ({shape_text(left)}) by {names[1]} ({shape_text(right)}): "
            f"{left[1]} columns against {right[0]} rows"
        )
    return left[0], right[1]


def same_shape(verb: str, left: Shape, right: Shape, names: tuple[str, str] = ("left", "right")) -> Shape:
    """The common shape of two operands that must have the same one, or a ShapeError that names both."""
    if left != right:
        raise ShapeError(f"can't {verb} {names[0]} ({shape_text(left)}) and {names[1]} ({shape_text(right)})")
    return left


def square_shape(verb: str, shape: Shape, name: str = "the matrix") -> Shape:
    """The shape of a matrix that has to be square, or a ShapeError that names it."""
    if shape[0] != shape[1]:
        raise ShapeError(f"can't {verb} {name} ({shape_text(shape)}): it isn't square")
    return shape


def _matrix(value: Any) -> Statement:
    if isinstance(value, Statement):
        return value
    raise StatementError(
        f"{value!r} is a {type(value).__name__}, not a matrix of the statement language; "
        "to scale a matrix write `scalar * matrix`, to use a 1 x 1 matrix as a scalar write `scalar(matrix)`"
    )


def _names(*operands: Basic) -> tuple[str, str]:
    left, right = (text_of(x) for x in operands)
    return left, right


class Statement(MatrixExpr):
    """A matrix expression of the language. Subclasses also inherit SymPy's class of the same meaning."""

    _op_priority = 20.0  # ahead of SymPy's scalars (10) and matrices (11), so that `alpha * S` comes here too
    __slots__ = ()

    def __matmul__(self, other: Any) -> Product:
        return Product(self, _matrix(other))

    def __rmatmul__(self, other: Any) -> Product:
        return Product(_matrix(other), self)

    def __mul__(self, other: Any) -> Scaled:
        return Scaled(_scalar(other, self), self)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Scaled:
        return Scaled(1 / _scalar(other, self), self)

    def __rtruediv__(self, other: Any) -> Statement:
        raise StatementError(f"can't divide by the matrix {text_of(self)}: use .I for the inverse")

    def __add__(self, other: Any) -> Sum:
        return Sum(self, _matrix(other))

    def __radd__(self, other: Any) -> Sum:
        return Sum(_matrix(other), self)

    def __sub__(self, other: Any) -> Sum:
        return Sum(self, Scaled(S.NegativeOne, _matrix(other)))

    def __rsub__(self, other: Any) -> Sum:
        return Sum(_matrix(other), Scaled(S.NegativeOne, self))

    def __neg__(self) -> Scaled:
        return Scaled(S.NegativeOne, self)

    def __pow__(self, other: Any) -> Statement:
        raise StatementError(f"{text_of(self)} ** {other}: write products with @ and inverses with .I")

    def hadamard(self, other: Any) -> Hadamard:
        """The entrywise product of two matrices of the same shape."""
        return Hadamard(self, _matrix(other))

    @property
    def T(self) -> Statement:
        """The transpose."""
        return self.arg if isinstance(self, Transposed) else Transposed(self)

    @property
    def I(self) -> Inverted:  # noqa: E743  (the name that SymPy and NumPy give to the inverse)
        """The inverse; the evaluation solves with it and never forms it."""
        return Inverted(self)

    def __str__(self) -> str:
        return text_of(self)

    __repr__ = __str__

    def _latex(self, printer: object) -> str:
        del printer  # brackets follow the rules of this language, see printing.py
        return latex_of(self)

    def _sympystr(self, printer: object) -> str:
        del printer
        return text_of(self)


def _scalar(value: Any, matrix: Statement) -> Expr:
    value = sympify(value)
    if isinstance(value, MatrixExpr):
        left, right = _names(matrix, value)
        raise StatementError(
            f"{left} * {right} is ambiguous: write @ for the matrix product or .hadamard for the entrywise one"
        )
    if value.atoms(Float):
        raise StatementError(f"{value} isn't exact: write Rational(1, 2) for 0.5, and so on")
    return value


class Product(Statement, MatMul):
    """A matrix product of two factors or more. A bracket that was written, as in v (k^T q), stays."""

    def __new__(cls, *factors: Statement) -> Product:
        first = factors[0]
        flat = [*(first.args if isinstance(first, Product) else (first,)), *factors[1:]]
        for left, right in pairwise(flat):
            if left.shape[1] != right.shape[0]:
                product_shape(left.shape, right.shape, _names(left, right))
        return Basic.__new__(cls, *flat)

    @property
    def shape(self) -> Shape:
        return self.args[0].shape[0], self.args[-1].shape[1]


def product_of(factors: Sequence[Statement]) -> Statement:
    """The product of one factor or more: a lone factor is itself."""
    return factors[0] if len(factors) == 1 else Product(*factors)


class Scaled(Statement, MatMul):
    """A scalar times a matrix."""

    def __new__(cls, factor: Expr, matrix: Statement) -> Scaled:
        factor = sympify(factor)
        if isinstance(matrix, Scaled):
            factor, matrix = Mul(factor, matrix.args[0]), matrix.args[1]
        return Basic.__new__(cls, factor, matrix)

    @property
    def shape(self) -> Shape:
        return self.args[1].shape


class Sum(Statement, MatAdd):
    """A sum of matrices, in the order written."""

    def __new__(cls, *terms: Statement) -> Sum:
        flat = [g for f in terms for g in (f.args if isinstance(f, Sum) else (f,))]
        for term in flat[1:]:
            same_shape("add", flat[0].shape, term.shape, _names(flat[0], term))
        return Basic.__new__(cls, *flat)

    @property
    def shape(self) -> Shape:
        return self.args[0].shape


class Hadamard(Statement, HadamardProduct):
    """An entrywise product."""

    def __new__(cls, *factors: Statement) -> Hadamard:
        flat = [g for f in factors for g in (f.args if isinstance(f, Hadamard) else (f,))]
        for factor in flat[1:]:
            same_shape("multiply entry by entry", flat[0].shape, factor.shape, _names(flat[0], factor))
        return Basic.__new__(cls, *flat)

    @property
    def shape(self) -> Shape:
        return self.args[0].shape


class Transposed(Statement, Transpose):
    """A transpose."""

    def __new__(cls, matrix: Statement) -> Transposed:
        return Basic.__new__(cls, matrix)

    @property
    def shape(self) -> Shape:
        return self.args[0].shape[1], self.args[0].shape[0]


class Inverted(Statement, Inverse):
    """An inverse. In a product it stands for the solution of a linear system."""

    def __new__(cls, matrix: Statement, exponent: object = S.NegativeOne) -> Inverted:
        del exponent  # SymPy's Inverse carries the exponent as a second argument
        square_shape("invert", matrix.shape, text_of(matrix))
        return Basic.__new__(cls, matrix, S.NegativeOne)

    @property
    def shape(self) -> Shape:
        return self.args[0].shape


class Diagonal(Statement, DiagMatrix):
    """D_x = Diag(x): the square matrix with the column x on its diagonal."""

    def __new__(cls, column: Statement) -> Diagonal:
        if column.shape[1] != 1:
            raise ShapeError(f"diag needs a column, {text_of(column)} is {shape_text(column.shape)}")
        return Basic.__new__(cls, column)

    @property
    def shape(self) -> Shape:
        return self.args[0].shape[0], self.args[0].shape[0]


class Eye(Statement, Identity):
    """The identity matrix I."""

    def __new__(cls, size: Expr) -> Eye:
        return Basic.__new__(cls, sympify(size))


class Zeros(Statement, ZeroMatrix):
    """The zero matrix."""

    def __new__(cls, rows: Expr, columns: Expr) -> Zeros:
        return Basic.__new__(cls, sympify(rows), sympify(columns))


class Ones(Statement, OneMatrix):
    """The matrix of ones."""

    def __new__(cls, rows: Expr, columns: Expr) -> Ones:
        return Basic.__new__(cls, sympify(rows), sympify(columns))

    @property
    def shape(self) -> Shape:
        return self.args[0], self.args[1]


class Entrywise(Statement):
    """A function of each entry of a matrix."""

    def __new__(cls, matrix: Statement) -> Entrywise:
        return Basic.__new__(cls, _matrix(matrix))

    @property
    def shape(self) -> Shape:
        return self.args[0].shape


class Exponential(Entrywise):
    """The exponential of each entry."""


class Logarithm(Entrywise):
    """The logarithm of each entry, with log 0 = -oo: it has a meaning inside an exponential."""


class Reciprocal(Entrywise):
    """One over each entry."""


class Below(Statement):
    """Two matrices or more below one another."""

    def __new__(cls, *blocks: Statement) -> Below:
        for block in map(_matrix, blocks):
            if block.shape[1] != blocks[0].shape[1]:
                raise ShapeError(_unequal("below", "columns", blocks[0], block))
        return Basic.__new__(cls, *blocks)

    @property
    def shape(self) -> Shape:
        return Add(*(block.shape[0] for block in self.args)), self.args[0].shape[1]


class Beside(Statement):
    """Two matrices or more beside one another."""

    def __new__(cls, *blocks: Statement) -> Beside:
        for block in map(_matrix, blocks):
            if block.shape[0] != blocks[0].shape[0]:
                raise ShapeError(_unequal("beside", "rows", blocks[0], block))
        return Basic.__new__(cls, *blocks)

    @property
    def shape(self) -> Shape:
        return self.args[0].shape[0], Add(*(block.shape[1] for block in self.args))


def _unequal(where: str, sides: str, first: Statement, other: Statement) -> str:
    shapes = f"({shape_text(first.shape)}) and ({shape_text(other.shape)})"
    return f"can't write {text_of(other)} {where} {text_of(first)}: {shapes} have different numbers of {sides}"


class RowProducts(Statement):
    """Row by row the Kronecker product of two matrices' rows: (a (x) b)^T (c (x) d) = (a^T c)(b^T d)."""

    def __new__(cls, left: Statement, right: Statement) -> RowProducts:
        if _matrix(left).shape[0] != _matrix(right).shape[0]:
            raise ShapeError(_unequal("in the row products with", "rows", left, right))
        return Basic.__new__(cls, left, right)

    @property
    def shape(self) -> Shape:
        return self.args[0].shape[0], self.args[0].shape[1] * self.args[1].shape[1]


class ScalarNode(Expr):
    """A scalar of the language. It is real and nothing else: signs are assumptions of an identity, not of a symbol."""

    is_commutative = True
    is_extended_real = True
    is_finite = True

    def _latex(self, printer: object) -> str:
        del printer
        return factor_of(LATEX, self)

    def _sympystr(self, printer: object) -> str:
        del printer
        return factor_of(TEXT, self)


class ScalarOf(ScalarNode):
    """The one entry of a 1 x 1 matrix, as a scalar."""

    def __new__(cls, matrix: Statement) -> ScalarOf:
        if matrix.shape != (1, 1):
            raise ShapeError(
                f"{text_of(matrix)} is {shape_text(matrix.shape)}, not 1 x 1, and can't be used as a scalar"
            )
        return Basic.__new__(cls, matrix)


class ScalarExponential(ScalarNode):
    """The exponential of a scalar."""

    def __new__(cls, exponent: Expr) -> ScalarExponential:
        return Basic.__new__(cls, sympify(exponent))


class TraceOf(ScalarNode):
    """The trace of a square matrix."""

    def __new__(cls, matrix: Statement) -> TraceOf:
        square_shape("take the trace of", matrix.shape, text_of(matrix))
        return Basic.__new__(cls, matrix)


def diag(column: Statement) -> Diagonal:
    """D_x for a column x."""
    return Diagonal(column)


def scalar(matrix: Statement) -> ScalarOf:
    """A 1 x 1 matrix as a scalar: `scalar(k.T @ k)`."""
    return ScalarOf(matrix)


def exp(x: Any) -> Exponential | ScalarExponential:
    """The exponential of each entry of a matrix, or of a scalar."""
    return Exponential(x) if isinstance(x, Statement) else ScalarExponential(x)


def log(matrix: Statement) -> Logarithm:
    """The logarithm of each entry; log 0 is -oo, whose exponential is 0."""
    return Logarithm(matrix)


def reciprocal(matrix: Statement) -> Reciprocal:
    """One over each entry."""
    return Reciprocal(matrix)


def block(rows: Sequence[Sequence[Statement]]) -> Below:
    """A matrix of blocks, row by row: block([[A, B], [C, D]])."""
    return Below(*(Beside(*row) for row in rows))


def normalised(weights: Statement) -> Product:
    """Each row divided by its sum: D^-1 A with D = Diag(A 1)."""
    return diag(weights @ Ones(weights.shape[1], S.One)).I @ weights


def softmax(scores: Statement) -> Product:
    """The exponentials of each row, divided by their sum."""
    return normalised(Exponential(scores))


def norm_squared(column: Statement) -> ScalarOf:
    """|x|^2 of a column."""
    return ScalarOf(column.T @ column)


def trace(matrix: Statement) -> TraceOf:
    """The trace of a square matrix."""
    return TraceOf(matrix)


def dimension(name: str) -> Symbol:
    """A dimension: a positive integer without a value."""
    return Symbol(name, integer=True, positive=True)
