"""Integer expressions over dims: the algebra is right for every size."""

from __future__ import annotations

from hypothesis import given, strategies as st

from onnx_gs.analysis import dim_expr as de

n, m = de.symbol("n"), de.symbol("m")

LEAVES = st.one_of(st.integers(-4, 12), st.sampled_from([n, m]))


def build(children):
    ops = st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "min", "max"])
    return st.tuples(ops, children, children)


TREES = st.recursive(LEAVES, build, max_leaves=7)


def symbolic(tree):
    if not isinstance(tree, tuple):
        return tree
    op, a, b = tree[0], symbolic(tree[1]), symbolic(tree[2])
    if a is None or b is None:
        return None
    if op == "floordiv":
        return de.floordiv(a, b) if isinstance(b, int) and b != 0 else None
    if op == "mod":
        return de.mod(a, b)
    return {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "min": lambda: de.minimum(a, b), "max": lambda: de.maximum(a, b)}[op]()


def concrete(tree, sizes):
    if isinstance(tree, int):
        return tree
    if isinstance(tree, de.Expr):
        return sizes[de.as_name(tree)]
    op, a, b = tree[0], concrete(tree[1], sizes), concrete(tree[2], sizes)
    return {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "floordiv": lambda: a // b, "mod": lambda: a % b, "min": lambda: min(a, b), "max": lambda: max(a, b)}[op]()


SIZES = [{"n": i, "m": j} for i in (0, 1, 2, 3, 7) for j in (0, 1, 4, 5)]


@given(TREES)
def test_an_expression_has_the_value_of_what_it_was_made_from(tree):
    try:
        found = symbolic(tree)
    except de.TooLarge:
        return
    if found is None:
        return
    for sizes in SIZES:
        try:
            expected = concrete(tree, sizes)
        except ZeroDivisionError:
            continue
        try:
            assert de.substitute(found, sizes) == expected
        except ZeroDivisionError:
            continue
        low, high = de.bounds(found)
        assert low is None or low <= expected
        assert high is None or expected <= high


@given(TREES, TREES)
def test_what_is_decided_holds_for_every_size(first, second):
    try:
        a, b = symbolic(first), symbolic(second)
        if a is None or b is None:
            return
        equal, less = de.equal(a, b), de.less(a, b)
    except de.TooLarge:
        return
    for sizes in SIZES:
        try:
            x, y = concrete(first, sizes), concrete(second, sizes)
        except ZeroDivisionError:
            continue
        assert equal is None or equal == (x == y)
        assert less is None or less == (x < y)
        assert not de.is_at_least(a, b) or x >= y


def test_quotients_that_are_exact_come_out():
    assert de.exact_quotient(n * m * 12, m * 4) == n * 3
    assert de.exact_quotient((n + 1) * (m + 2), n + 1) == m + 2
    assert de.exact_quotient(n + 1, n) is None
    assert de.floordiv(de.floordiv(n, 2), 3) == de.floordiv(n, 6)
    assert de.truncdiv(-7, 2) == -3
    assert de.truncdiv(n - 1, 2) is None


def test_text():
    assert str(n * m * 2 - 1) == "2*m*n - 1"
    assert str(-n) == "-n"
    assert str(de.ceildiv(n, 2)) == "floor((n + 1)/2)"
    assert str(de.maximum(n, 1)) == "max(1, n)"


def test_a_huge_expression_is_refused():
    total = 0
    try:
        for i in range(100):
            total = total + de.symbol(f"d{i}")
    except de.TooLarge:
        return
    raise AssertionError
