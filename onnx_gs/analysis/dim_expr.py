"""Integer expressions over the names of dims: polynomials with floor division, remainder, minimum and maximum as atoms.

Every name stands for the size of a dim, so it is at least 0: a comparison is decided only where it holds for all such sizes.
A plain ``int`` is an expression too; an ``Expr`` is never constant, so two expressions are equal for every size exactly when they are ``==``
as far as this algebra can tell.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Union

if TYPE_CHECKING:
    from collections.abc import Mapping

#: An expression that grows beyond this many terms is not worth keeping: ``TooLarge`` is raised.
MAX_TERMS = 48


class TooLarge(ArithmeticError):  # noqa: N818 - an answer, which callers expect
    """An expression outgrew ``MAX_TERMS``; the caller falls back to an unknown size."""


class Call(NamedTuple):
    """An operation that the polynomial cannot express, kept as an atom: ``floordiv``, ``mod``, ``min`` or ``max`` of two expressions."""

    op: str
    a: Dim
    b: Dim

    def __str__(self) -> str:
        """Spell the call, as in ``floor(n/2)`` or ``max(n, 1)``."""
        if self.op == "floordiv":
            return f"floor({_grouped(self.a)}/{_grouped(self.b)})"
        if self.op == "mod":
            return f"mod({self.a}, {self.b})"
        return f"{self.op}({self.a}, {self.b})"


Atom = Union[str, Call]
Monomial = tuple[Atom, ...]


def _rank(atom: Atom) -> str:
    return atom if isinstance(atom, str) else f"\x7f{atom}"


class Expr:
    """A polynomial with integer coefficients over the names of dims. Immutable, hashable, never constant.

    Example:
        >>> n = symbol("n")
        >>> (n + 1) * 2 - n * 2
        2
        >>> str(floordiv(n * 6 + 3, 2))
        '3*n + 1'
    """

    __slots__ = ("_bounds", "_hash", "_text", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        """Keep terms that ``_made`` has put into canonical form."""
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))
        self._bounds: tuple[int | None, int | None] | None = None
        self._text: str | None = None

    def __eq__(self, other: object) -> bool:
        """Compare the canonical forms."""
        return self is other or (isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms)

    def __hash__(self) -> int:
        """Hash the canonical form."""
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        """Add."""
        terms = dict(self.terms)
        if isinstance(other, Expr):
            for m, c in other.terms.items():
                terms[m] = terms.get(m, 0) + c
        else:
            terms[()] = terms.get((), 0) + other
        return _made(terms)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        """Negate."""
        return Expr({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Dim) -> Dim:
        """Subtract."""
        return self + (-other)

    def __rsub__(self, other: Dim) -> Dim:
        """Subtract from a number."""
        return (-self) + other

    def __mul__(self, other: Dim) -> Dim:
        """Multiply."""
        if not isinstance(other, Expr):
            return 0 if other == 0 else self if other == 1 else Expr({m: c * other for m, c in self.terms.items()})
        if len(self.terms) * len(other.terms) > MAX_TERMS * 4:
            raise TooLarge
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                key = tuple(sorted(m + n, key=_rank)) if m and n else m or n
                terms[key] = terms.get(key, 0) + c * d
        return _made(terms)

    __rmul__ = __mul__

    def __str__(self) -> str:
        """Spell the expression, highest terms first, as in ``2*batch*n + 1``."""
        if self._text is None:  # kept, as products are ordered by it
            self._text = _spelled(self.terms)
        return self._text

    __repr__ = __str__


Dim = Union[int, Expr]


def _made(terms: dict[Monomial, int]) -> Dim:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    if len(kept) > MAX_TERMS:
        raise TooLarge
    return Expr(kept)


def _spelled(terms: dict[Monomial, int]) -> str:
    parts = []
    for m, c in sorted(terms.items(), key=lambda item: (-len(item[0]), [_rank(a) for a in item[0]])):
        factors = [str(a) for a in m]
        if abs(c) != 1 or not m:
            factors.insert(0, str(abs(c)))
        parts.append((" - " if c < 0 else " + ") + "*".join(factors))
    text = "".join(parts)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _grouped(dim: Dim) -> str:
    return f"({dim})" if isinstance(dim, Expr) and (len(dim.terms) > 1 or len(next(iter(dim.terms))) > 1) else str(dim)


def symbol(name: str) -> Expr:
    """Give the expression that is one name."""
    return Expr({(name,): 1})


def _atom(call: Call) -> Expr:
    return Expr({(call,): 1})


def as_name(dim: Dim) -> str | None:
    """Give the name that an expression consists of, or None where it is more than that, or a number."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        ((m, c),) = dim.terms.items()
        if c == 1 and len(m) == 1 and isinstance(m[0], str):
            return m[0]
    return None


def names_in(dim: Dim) -> set[str]:
    """Give the names that an expression depends on."""
    found: set[str] = set()
    pending = [dim]
    while pending:
        current = pending.pop()
        if isinstance(current, Expr):
            for m in current.terms:
                for atom in m:
                    if isinstance(atom, str):
                        found.add(atom)
                    else:
                        pending += (atom.a, atom.b)
    return found


# -- division, minimum, maximum ---------------------------------------------------------------------


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """Give ``a / b`` where ``b`` divides ``a`` term by term, else None. ``b`` is taken to be nonzero, as the model divides by it."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if a == 0:
        return 0
    if a == b:
        return 1
    if isinstance(b, int):
        if b == 0 or isinstance(a, int) or any(c % b for c in a.terms.values()):
            return None
        return _made({m: c // b for m, c in a.terms.items()})
    if isinstance(a, int):
        return None
    if len(b.terms) != 1:
        return _long_quotient(a, b)
    ((divisor, scale),) = b.terms.items()
    out: dict[Monomial, int] = {}
    for m, c in a.terms.items():
        rest = list(m)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % scale:
            return None
        out[tuple(rest)] = c // scale
    return _made(out)


def _long_quotient(a: Expr, b: Expr) -> Dim | None:
    """Divide by a sum: take the leading term of ``a`` away until nothing is left, or it does not go."""
    quotient: Dim = 0
    rest: Dim = a
    lead = max(b.terms, key=_degree)
    for _ in range(8):
        if not isinstance(rest, Expr):
            break
        part = exact_quotient(Expr({(top := max(rest.terms, key=_degree)): rest.terms[top]}), Expr({lead: b.terms[lead]}) if lead else b.terms[lead])
        if part is None:
            return None
        quotient = quotient + part
        rest = rest - part * b
    return quotient if rest == 0 else None


def _degree(m: Monomial) -> tuple[int, list[str]]:
    return (len(m), [_rank(a) for a in m])


def floordiv(a: Dim, b: Dim) -> Dim:
    """Give ``a // b``, rounded down; ``b`` is not 0.

    Example:
        >>> n = symbol("n")
        >>> str(floordiv(n * 4 + 6, 4)), str(floordiv(n, 2))
        ('n + 1', 'floor(n/2)')
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    whole = exact_quotient(a, b)
    if whole is not None:
        return whole
    if isinstance(b, int) and isinstance(a, Expr):
        if b < 0:
            return floordiv(-a, -b)
        # what divides comes out of the floor: floor((4n + 6)/4) = n + floor(6/4)
        out = {m: c // b for m, c in a.terms.items() if c % b == 0 or not m}
        rest = {m: c % b if not m else c for m, c in a.terms.items() if c % b and (m or c % b)}
        if any(out.values()):
            return _made(out) + floordiv(_made(rest), b)
        nested = _single_call(a)
        if nested is not None and nested.op == "floordiv" and isinstance(nested.b, int) and nested.b > 0:
            return floordiv(nested.a, nested.b * b)  # floor(floor(x/p)/q) = floor(x/(p*q))
        low, high = bounds(a)
        if low is not None and high is not None and low // b == high // b:
            return low // b
    return _atom(Call("floordiv", a, b))


def _single_call(a: Expr) -> Call | None:
    if len(a.terms) == 1:
        ((m, c),) = a.terms.items()
        if c == 1 and len(m) == 1 and isinstance(m[0], Call):
            return m[0]
    return None


def truncdiv(a: Dim, b: Dim) -> Dim | None:
    """Give ``a / b`` rounded towards zero, as ONNX ``Div`` does on integers; None where the signs are not known."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if b == 0:
        return None
    whole = exact_quotient(a, b)
    if whole is not None:
        return whole
    return floordiv(a, b) if is_at_least(a, 0) and is_at_least(b, 0) else None


def mod(a: Dim, b: Dim) -> Dim | None:
    """Give ``a`` modulo ``b`` for ``a`` of at least 0 and ``b`` above 0, where both ONNX conventions agree; None where that is not known."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b if a >= 0 and b > 0 else None
    if not is_at_least(a, 0) or not is_at_least(b, 0):
        return None
    if exact_quotient(a, b) is not None:
        return 0
    if isinstance(b, int):
        if b == 0:
            return None
        if isinstance(a, Expr):
            reduced = _made({m: c % b for m, c in a.terms.items()})
            high = bounds(reduced)[1]
            if isinstance(reduced, int) or (high is not None and high < b):
                return reduced
            return _atom(Call("mod", reduced, b))
    high, low = bounds(a)[1], bounds(b)[0]
    if high is not None and low is not None and high < low:
        return a
    return _atom(Call("mod", a, b))


def minimum(a: Dim, b: Dim) -> Dim:
    """Give the smaller one."""
    if a == b or is_at_least(b, a):
        return a
    if is_at_least(a, b):
        return b
    return _atom(Call("min", *_ordered(a, b)))


def maximum(a: Dim, b: Dim) -> Dim:
    """Give the larger one."""
    if a == b or is_at_least(a, b):
        return a
    if is_at_least(b, a):
        return b
    return _atom(Call("max", *_ordered(a, b)))


def _ordered(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    return (a, b) if str(a) <= str(b) else (b, a)


def ceildiv(a: Dim, b: int) -> Dim:
    """Give ``a / b`` rounded up, for ``b`` above 0."""
    return floordiv(a + (b - 1), b)


# -- comparing --------------------------------------------------------------------------------------


def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Give the least and the greatest value over all sizes of at least 0; None where there is no bound, or none is found."""
    if isinstance(dim, int):
        return dim, dim
    if dim._bounds is None:
        dim._bounds = _sum_bounds(dim)
    return dim._bounds


def _sum_bounds(dim: Expr) -> tuple[int | None, int | None]:
    low: int | None = 0
    high: int | None = 0
    for m, c in dim.terms.items():
        least, most = _product_bounds(m)
        if c < 0:
            least, most = most, least
        low = None if low is None or least is None else low + c * least
        high = None if high is None or most is None else high + c * most
    return low, high


def _product_bounds(m: Monomial) -> tuple[int | None, int | None]:
    low, high = 1, 1
    unbounded = False
    for atom in m:
        least, most = (0, None) if isinstance(atom, str) else _call_bounds(atom)
        if least is None or least < 0:
            return None, None
        low *= least
        if most is None:
            unbounded = True
        else:
            high *= most
    return low, None if unbounded else high


def _call_bounds(call: Call) -> tuple[int | None, int | None]:
    (a_low, a_high), (b_low, b_high) = bounds(call.a), bounds(call.b)
    if call.op == "floordiv":
        if a_low is None or a_low < 0 or b_low is None or b_low < 0:
            return None, None
        return (a_low // b_high if b_high else 0), (a_high // max(b_low, 1) if a_high is not None else None)
    if call.op == "mod":
        return 0, (b_high - 1 if b_high is not None else None)
    known_low = [x for x in (a_low, b_low) if x is not None]
    known_high = [x for x in (a_high, b_high) if x is not None]
    if call.op == "min":
        return (min(known_low) if len(known_low) == 2 else None), (min(known_high) if known_high else None)
    return (max(known_low) if known_low else None), (max(known_high) if len(known_high) == 2 else None)


def is_at_least(a: Dim, b: Dim) -> bool:
    """Say whether ``a >= b`` holds for every size; False also where that is not known."""
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    try:
        low = bounds(a - b)[0]
    except TooLarge:
        return False
    if low is not None and low >= 0:
        return True
    # max(x, y) >= b where one of them is; min(x, y) <= a where one of them is
    if isinstance(a, Expr) and (call := _single_call(a)) is not None and call.op == "max":
        return is_at_least(call.a, b) or is_at_least(call.b, b)
    if isinstance(b, Expr) and (call := _single_call(b)) is not None and call.op == "min":
        return is_at_least(a, call.a) or is_at_least(a, call.b)
    if isinstance(b, Expr) and (call := _single_call(b)) is not None and call.op == "floordiv" and isinstance(call.b, int) and call.b >= 1:
        return is_at_least(call.a, 0) and is_at_least(a, call.a)
    return False


def equal(a: Dim, b: Dim) -> bool | None:
    """Say whether ``a == b``: True or False where it is so for every size, else None.

    Example:
        >>> n = symbol("n")
        >>> equal(n, -1), equal(n * 2, 3), equal(n, 4), equal(n + n, n * 2)
        (False, False, None, True)
    """
    if a == b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    try:
        gap = a - b
    except TooLarge:
        return None
    low, high = bounds(gap)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    if isinstance(gap, Expr):
        common = math.gcd(*(c for m, c in gap.terms.items() if m))
        if gap.terms.get((), 0) % common:
            return False
    return None


def less(a: Dim, b: Dim) -> bool | None:
    """Say whether ``a < b``: True or False where it is so for every size, else None."""
    if is_at_least(b, a + 1):
        return True
    return False if is_at_least(a, b) else None


# -- values -----------------------------------------------------------------------------------------


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Put sizes or expressions in the place of names.

    Example:
        >>> str(substitute(symbol("n") * symbol("m") + 1, {"n": 3}))
        '3*m + 1'
    """
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for m, c in dim.terms.items():
        product: Dim = c
        for atom in m:
            if isinstance(atom, str):
                product = product * values.get(atom, symbol(atom))
            else:
                a, b = substitute(atom.a, values), substitute(atom.b, values)
                product = product * _CALLS[atom.op](a, b)
        total = total + product
    return total


def _modulo(a: Dim, b: Dim) -> Dim:
    found = mod(a, b)
    return _atom(Call("mod", a, b)) if found is None else found


_CALLS = {"floordiv": floordiv, "mod": _modulo, "min": minimum, "max": maximum}


def product(dims: tuple[Dim, ...] | list[Dim]) -> Dim:
    """Multiply dims; 1 for none."""
    total: Dim = 1
    for d in dims:
        total = total * d
    return total
