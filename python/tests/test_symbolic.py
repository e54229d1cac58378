"""Traced programs: NumPy code on symbols, sparse matrices, derivatives, files, errors."""

from __future__ import annotations

import re
import sys
import threading

import numpy as np
import pytest

import wuji as ti
from wuji import symbolic


@pytest.fixture(autouse=True)
def world():
    ti.init(arch=ti.cpu, offline_cache=False, log_level=ti.ERROR)
    yield
    ti.reset()


RNG = np.random.default_rng(7)
POSITIVE = RNG.uniform(0.5, 2.0, (6, 2))

ELEMENTWISE = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a**b, lambda a, b: a**3,
    lambda a, b: a % b, lambda a, b: a // b, lambda a, b: -a, lambda a, b: +a, lambda a, b: abs(a - b), lambda a, b: 2.0 - a,
    lambda a, b: 2.0 / a, lambda a, b: 2.0**a, lambda a, b: np.fmod(3.0 * a, b), lambda a, b: np.minimum(a, b),
    lambda a, b: np.maximum(a, 1.0), lambda a, b: np.arctan2(a, b), lambda a, b: np.hypot(a, b), lambda a, b: np.floor(3.0 * a),
    lambda a, b: np.ceil(3.0 * a), lambda a, b: np.trunc(3.0 * a), lambda a, b: np.sqrt(a), lambda a, b: np.square(a),
    lambda a, b: np.reciprocal(a), lambda a, b: np.sin(a), lambda a, b: np.cos(a), lambda a, b: np.tan(0.5 * a),
    lambda a, b: np.arcsin(0.4 * a), lambda a, b: np.arccos(0.4 * a), lambda a, b: np.arctan(a), lambda a, b: np.sinh(a),
    lambda a, b: np.cosh(a), lambda a, b: np.tanh(a), lambda a, b: np.arcsinh(a), lambda a, b: np.arccosh(a + 1.0),
    lambda a, b: np.arctanh(0.4 * a), lambda a, b: np.exp(a), lambda a, b: np.exp2(a), lambda a, b: np.expm1(a),
    lambda a, b: np.log(a), lambda a, b: np.log2(a), lambda a, b: np.log10(a), lambda a, b: np.log1p(a), lambda a, b: np.cbrt(a - b),
    lambda a, b: np.sign(a - b), lambda a, b: np.copysign(a, a - b), lambda a, b: np.deg2rad(a), lambda a, b: np.degrees(a),
    lambda a, b: np.where(a < b, a, 2.0 * b), lambda a, b: np.where(a >= b, a, b), lambda a, b: np.where((a > 1.0) & (b > 1.0), a, b),
    lambda a, b: np.where((a > 1.0) | ~(b <= 1.0), a, b), lambda a, b: np.where(a == a, a, b), lambda a, b: np.where(a != b, a, b),
    lambda a, b: np.clip(a, 0.75, 1.25),
]  # fmt: skip


def test_every_function_agrees_with_numpy():
    def f(x):
        return [g(x[:, 0], x[:, 1]) for g in ELEMENTWISE]

    found = symbolic.trace(f, POSITIVE)(POSITIVE)
    for n, (a, b) in enumerate(zip(found, f(POSITIVE), strict=True)):
        np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=str(n))


def test_scalars_and_arrays_of_objects():
    def f(x):
        objects = np.array([x[0], x[1] * 2.0, x[0] + 1.0])
        return np.sqrt(objects) + objects.sum(), objects @ objects, np.linalg.norm(objects), x[0] ** 2

    x = np.array([2.0, 3.0])
    found = symbolic.trace(f, x)(x)
    numbers = np.array([2.0, 6.0, 3.0])
    np.testing.assert_allclose(found[0], np.sqrt(numbers) + 11.0)
    np.testing.assert_allclose(found[1:], [49.0, 7.0, 4.0])
    assert isinstance(found[3], np.float64)


ARRAYS = [
    lambda x: np.sum(x), lambda x: x.sum(axis=0), lambda x: np.sum(x, axis=(0, 2)), lambda x: np.sum(x, axis=-1, keepdims=True),
    lambda x: np.mean(x, axis=1), lambda x: x.mean(), lambda x: np.prod(x, axis=2), lambda x: x.min(axis=0), lambda x: np.max(x),
    lambda x: x[0] @ x[1].T, lambda x: x @ x.transpose(0, 2, 1), lambda x: x[0] @ x[1, 0], lambda x: x[0, 0] @ x[1, 0],
    lambda x: np.dot(x[0], x[1].T), lambda x: np.dot(x[0, 0], 2.0), lambda x: np.outer(x[0, 0], x[1, 0]),
    lambda x: np.inner(x[0], x[1]), lambda x: np.vdot(x[0], x[1]), lambda x: np.cross(x[..., :3], x[::-1, :, 1:]),
    lambda x: np.linalg.norm(x), lambda x: np.linalg.norm(x, axis=-1), lambda x: np.concatenate([x, np.ones((1, 3, 4))]),
    lambda x: np.stack([x[0], x[1]], axis=1), lambda x: np.vstack([x[0], x[1]]), lambda x: np.hstack([x[0], x[1]]),
    lambda x: x.reshape(6, 4), lambda x: x.reshape((-1,)), lambda x: np.reshape(x, (4, 6)), lambda x: x.ravel(), lambda x: x.T,
    lambda x: np.moveaxis(x, 0, 2), lambda x: np.swapaxes(x, 0, 1), lambda x: np.roll(x, 1, axis=2), lambda x: np.flip(x, 1),
    lambda x: np.take(x, [2, 0], axis=1), lambda x: np.repeat(x, 2, axis=0), lambda x: x[:, [0, 2]][..., ::2],
    lambda x: x[x.shape[0] - 1, None], lambda x: np.diff(x, axis=1), lambda x: np.einsum("ijk,ilk->jl", x, x),
    lambda x: np.tensordot(x, x, axes=([0, 1], [0, 1])), lambda x: np.cumsum(x, axis=0), lambda x: np.trace(x[:, :2].sum(axis=2)),
    lambda x: x + np.arange(4.0), lambda x: np.zeros_like(x) + x, lambda x: np.ones_like(x) * x, lambda x: np.full_like(x, 2.0) * x,
    lambda x: np.broadcast_to(x[0, 0], (2, 4)) * 1.0, lambda x: np.kron(x[0], x[1]),
]  # fmt: skip


def test_functions_of_arrays_agree_with_numpy():
    x = RNG.uniform(0.5, 2.0, (2, 3, 4))
    found = symbolic.trace(lambda x: [g(x) for g in ARRAYS], x)(x)
    for n, (a, g) in enumerate(zip(found, ARRAYS, strict=True)):
        np.testing.assert_allclose(a, g(x), rtol=1e-12, err_msg=str(n))
        assert np.shape(a) == np.shape(g(x)), n


def test_assignments_and_views():
    def f(x):
        y = np.zeros_like(x)
        y[1:] = x[:-1] * 2.0
        first = y[:2]
        first[0] = x[3]
        y += 1.0
        y *= x
        np.add.at(y, [0, 0, 2], x[:3])
        return y

    x = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(symbolic.trace(f, x)(x), f(x))


def test_programs_run_again_with_new_numbers():
    program = symbolic.trace(lambda x, s: (x * s, {"sum": x.sum(), "list": [s, 2.0]}), np.zeros(5), 1.0)
    for n in range(3):
        x = RNG.uniform(size=5)
        product, rest = program(x, float(n))
        np.testing.assert_allclose(product, x * n)
        assert rest["sum"] == pytest.approx(x.sum()) and rest["list"] == [n, 2.0]
    assert "groups" in program.explain()


def test_single_precision_and_fields():
    x = np.arange(8, dtype=np.float32)
    program = symbolic.trace(lambda x: x * x + 0.1, x)
    assert program(x).dtype == np.float32
    assert symbolic.trace(lambda x: x * x, x, dtype=ti.f64)(x).dtype == np.float64
    field = ti.field(ti.f32, 8)
    field.from_numpy(x)
    np.testing.assert_allclose(program(field), x * x + 0.1, rtol=1e-6)


def grid_laplacian(n):
    """Return values, rows and columns of the Laplacian of a grid."""
    at = np.arange(n * n).reshape(n, n)
    a = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    b = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    weight = 1.0 + a % 3
    return np.concatenate([-weight, -weight, weight, weight]), np.concatenate([a, b, a, b]), np.concatenate([b, a, a, b])


def laplacian(n):
    values, rows, columns = grid_laplacian(n)
    dense = np.zeros((n * n, n * n))
    np.add.at(dense, (rows, columns), values)
    at = np.argwhere(dense)
    starts = np.searchsorted(at[:, 0], np.arange(n * n + 1))
    return symbolic.csr(dense[tuple(at.T)], at[:, 1], starts, dense.shape)


def test_sparse_products_and_sums():
    a = laplacian(4)
    x = RNG.uniform(size=16)

    def f(a, x):
        square = a @ a
        return square, (2.0 * a - a.T @ a) / 3.0, a @ x, x @ a, a.diagonal(), a.toarray().sum(axis=0), square.tocsc()

    found = symbolic.trace(f, a, x)(a, x)
    dense = a.toarray()
    square = dense @ dense
    assert found[0].nnz == np.count_nonzero(np.abs(dense) @ np.abs(dense))
    np.testing.assert_allclose(found[0].toarray(), square)
    np.testing.assert_allclose(found[1].toarray(), (2.0 * dense - dense.T @ dense) / 3.0)
    np.testing.assert_allclose(found[2], dense @ x)
    np.testing.assert_allclose(found[3], x @ dense)
    np.testing.assert_allclose(found[4], np.diag(dense))
    np.testing.assert_allclose(found[5], dense.sum(axis=0), atol=1e-12)
    assert found[6].format == "csc"
    np.testing.assert_allclose(found[6].toarray(), square)


def test_matrices_are_assembled_from_entries():
    values, rows, columns = grid_laplacian(3)
    program = symbolic.trace(lambda v: symbolic.assemble(v * v, rows, columns, (9, 9)), values)
    expected = np.zeros((9, 9))
    np.add.at(expected, (rows, columns), values * values)
    np.testing.assert_allclose(program(values).toarray(), expected)


def scipy_sparse():
    """Return SciPy's sparse matrices. SciPy is large and no other test needs it, so it may be missing."""
    return pytest.importorskip("scipy.sparse", reason="SciPy is not installed: pip install scipy")


def test_scipy_matrices_are_inputs_and_outputs():
    sparse = scipy_sparse()
    own = laplacian(4)
    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array):
        a = kind(own.to_scipy())
        program = symbolic.trace(lambda a: (a @ a, a.tocsc()), a)
        square, columns = program(a)
        np.testing.assert_allclose(square.toarray(), (a @ a).toarray())
        assert sparse.issparse(columns) and columns.format == "csc"
        assert isinstance(square, sparse.spmatrix) == isinstance(a, sparse.spmatrix)


def test_scipy_matrices_mix_with_symbols_and_arrays():
    sparse = scipy_sparse()
    a = sparse.csr_matrix(laplacian(4).to_scipy())
    constant = sparse.random(16, 16, 0.2, format="csr", random_state=3)
    # SciPy's product of its own matrix and a symbolic vector does not reach our code.
    own = symbolic.csr(constant.data, constant.indices, constant.indptr, constant.shape)
    x = RNG.uniform(size=16)

    def f(a, x):
        return a @ constant, constant @ a, a + constant, a @ x, own @ x, x @ a, a.T @ a, 2.0 * a

    program = symbolic.trace(f, a, x)
    for scale in (1.0, -0.5):
        scaled = a * scale
        for n, (found, expected) in enumerate(zip(program(scaled, x), f(scaled, x), strict=True)):
            dense = expected.toarray() if sparse.issparse(expected) else expected
            np.testing.assert_allclose(found.toarray() if sparse.issparse(found) else found, dense, atol=1e-12, err_msg=str(n))


def test_scipy_matrices_with_unsorted_or_repeated_entries():
    sparse = scipy_sparse()
    coo = sparse.coo_matrix(([1.0, 2.0, 3.0, 4.0], ([0, 0, 1, 0], [1, 0, 1, 1])), shape=(2, 2))
    unsorted = sparse.csr_matrix(([1.0, 2.0, 3.0], [1, 0, 1], [0, 2, 3]), shape=(2, 2))
    assert not unsorted.has_sorted_indices
    for a in (coo, coo.tocsr(), unsorted, unsorted.tocsc()):
        program = symbolic.trace(lambda a: a @ a, a)
        np.testing.assert_allclose(program(a).toarray(), a.toarray() @ a.toarray())


def springs(x):
    d = x[1:] - x[:-1]
    return 0.5 * np.sum((np.linalg.norm(d, axis=1) - 0.5) ** 2)


def test_derivatives_agree_with_differences():
    x = RNG.uniform(size=(6, 2))
    program = symbolic.trace(lambda x: (symbolic.gradient(springs(x), x), symbolic.hessian(springs(x), x)), x)
    gradient, hessian = program(x)
    assert gradient.shape == x.shape and hessian.nnz == 6 * 4 + 5 * 2 * 4

    def slopes(x, step=1e-5):
        eye = np.eye(x.size).reshape(-1, *x.shape) * step
        return np.array([(springs(x + e) - springs(x - e)) / (2 * step) for e in eye])

    np.testing.assert_allclose(gradient.ravel(), slopes(x), atol=1e-8)
    eye = np.eye(x.size).reshape(-1, *x.shape) * 1e-4
    second = np.array([(slopes(x + e) - slopes(x - e)) / 2e-4 for e in eye])
    np.testing.assert_allclose(hessian.toarray(), second, atol=1e-3)
    jacobian = symbolic.trace(lambda x: symbolic.jacobian(x[1:, 0] * x[:-1, 1], x), x)(x)
    assert jacobian.shape == (5, 12) and jacobian.nnz == 10


def test_matrices_are_projected_to_definite_ones():
    a = RNG.uniform(-1.0, 1.0, (5, 3, 3))
    a = a + a.transpose(0, 2, 1)
    found = symbolic.trace(symbolic.project_definite, a)(a)
    values, vectors = np.linalg.eigh(a)
    expected = np.einsum("nik,nk,njk->nij", vectors, np.maximum(values, 0.0), vectors)
    assert values.min() < -0.1
    np.testing.assert_allclose(found, expected, atol=1e-9)
    refused(lambda x: symbolic.project_definite(x), "W0603", np.ones((2, 3)), word="square")
    refused(lambda x: symbolic.project_definite(x[0]), "W0603", word="square")
    refused(lambda x: symbolic.project_definite(np.eye(2)), "W0603", word="symbolic")
    empty = symbolic.trace(lambda x: (x, symbolic.project_definite(x[:0])), a)(a)
    assert empty[1].shape == (0, 3, 3)


def test_newton_with_projected_hessians_of_elements():
    rest = 0.5

    def newton(x):
        total, rows, columns, entries = 0.0, [], [], []
        for k in range(len(x) - 1):
            ends = np.concatenate([x[k], x[k + 1]])
            stretch = np.linalg.norm(ends[2:] - ends[:2]) - rest
            local = symbolic.project_definite(symbolic.hessian(stretch**2, ends).toarray())
            at = np.arange(2 * k, 2 * k + 4)
            rows += list(np.repeat(at, 4))
            columns += list(np.tile(at, 4))
            entries += list(local.ravel())
            total = total + stretch**2
        stiffness = symbolic.assemble(np.array(entries), rows, columns, (x.size, x.size))
        return symbolic.gradient(total, x), stiffness

    x = RNG.uniform(0.0, 1.0, (5, 2))
    x[0], x[1] = [0.0, 0.0], [0.1, 0.0]
    program = symbolic.trace(newton, x)
    _, stiffness = program(x)
    assert np.linalg.eigvalsh(stiffness.toarray()).min() > -1e-9
    for _ in range(60):
        slope, stiffness = program(x)
        step = np.linalg.solve(stiffness.toarray() + 1e-3 * np.eye(x.size), slope.ravel())
        x = x - step.reshape(x.shape)
    np.testing.assert_allclose(np.linalg.norm(x[1:] - x[:-1], axis=1), rest, atol=1e-4)


def test_blocks_are_hints():
    def f(x):
        length = np.sqrt(x[0] * x[0] + x[1] * x[1])
        unit = [x[0] / length, x[1] / length]
        symbolic.block(*unit)
        return unit

    x = np.array([3.0, 4.0])
    assert symbolic.trace(f, x)(x) == pytest.approx([0.6, 0.8])


def test_traces_are_saved_and_loaded(tmp_path):
    a = laplacian(3)
    trace = symbolic.record(lambda a, x: {"y": a @ x, "square": (a @ a,)}, a, np.zeros(9))
    assert "mul" in trace.statistics()
    trace.save(tmp_path / "trace")
    found = symbolic.load(tmp_path / "trace").compile()(a, np.ones(9))
    dense = a.toarray()
    np.testing.assert_allclose(found["y"], dense.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(found["square"][0].toarray(), dense @ dense)
    data = (tmp_path / "trace").read_bytes()
    for n in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[n] ^= 1
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            symbolic.load(tmp_path / "damaged")
        except ti.WujiError as e:
            assert e.code == "W0804"
    with pytest.raises(ti.WujiError, match="W0804"):
        symbolic.load(tmp_path / "missing")


def refused(function, code, *inputs, word=""):
    """Check the code of an error, and that it shows the line of the user's program."""
    with pytest.raises(ti.WujiError) as caught:
        symbolic.trace(function, *(inputs or (np.ones(3),)))
    text = str(caught.value)
    assert caught.value.code == code and word in text, text
    assert re.search(rf"--> {re.escape(__file__)}:\d+:\d+", text), text
    return text


def test_branches_on_values_name_the_line():
    def f(x):
        if x[0] < x[1]:
            return x[0]
        return x[1]

    text = refused(f, "W0801")
    assert "if x[0] < x[1]:" in text and "np.where" in text
    refused(lambda x: 1.0 if (x > 0.0).all() else x[0], "W0801")
    refused(lambda x: x[x[0]], "W0801", word="an index")
    refused(lambda x: range(x[0]), "W0801")
    refused(lambda x: int(x[0]), "W0801")
    refused(lambda x: np.isnan(x), "W0801", word="np.isnan")
    refused(lambda x: max(x[0], x[1]), "W0801")

    def stored(x):
        y = np.zeros(3)
        y[0] = x[0]
        return y

    assert "symbolic.array" in refused(stored, "W0801")

    def added(x):
        y = np.zeros(3)
        y += x
        return y

    refused(added, "W0801")


def test_symbols_stay_in_their_trace():
    kept = []
    symbolic.record(lambda x: kept.append(x) or x, np.ones(3))
    refused(lambda x: x + kept[0], "W0802")
    refused(lambda x: kept[0], "W0802")
    with pytest.raises(ti.WujiError, match="W0802"):
        kept[0] + 1.0
    with pytest.raises(ti.WujiError, match="W0802"):
        symbolic.array([1.0])
    refused(lambda x: symbolic.trace(lambda y: x * y, np.ones(3)), "W0802")


def test_changed_inputs_are_found():
    a = laplacian(3)
    program = symbolic.trace(lambda a, x: a @ x, a, np.zeros(9))
    other = symbolic.csr(a.data[:-1], a.indices[:-1], np.minimum(a.indptr, a.nnz - 1), a.shape)
    swapped = laplacian(3)
    swapped.indices[0:2] = [0, 2]
    for given in [(other, np.zeros(9)), (a, np.zeros(8)), (a,), (a.tocsc(), np.zeros(9)), (swapped, np.zeros(9))]:
        with pytest.raises(ti.WujiError) as caught:
            program(*given)
        assert caught.value.code == "W0803" and __file__ in str(caught.value)


def test_inconsistent_matrices_are_found():
    wrong = [
        ([1.0, 2.0], [0], [0, 1, 1]), ([1.0], [0], [0, 1]), ([1.0, 2.0], [0, 1], [0, 2, 1]), ([1.0, 2.0], [1, 0], [0, 2, 2]),
        ([1.0], [2], [0, 1, 1]), ([1.0], [-1], [0, 1, 1]),
    ]  # fmt: skip
    for data, indices, indptr in wrong:
        with pytest.raises(ti.WujiError, match="W0806"):
            symbolic.csr(data, indices, indptr, (2, 2))
    a = laplacian(2)
    refused(lambda a, b: a @ b, "W0806", a, laplacian(3))
    refused(lambda a, b: a + b, "W0806", a, laplacian(3))
    refused(lambda a: a @ np.ones(3), "W0806", a)


def test_what_has_no_symbolic_counterpart():
    for f in (np.rint, np.linalg.inv, np.spacing, lambda x: x * 1j, lambda x: "text", lambda x: x > 0.0, lambda x: (x > 0.0) + x):
        with pytest.raises(ti.WujiError) as caught:
            symbolic.trace(f, np.eye(3))
        assert caught.value.code == "W0603", caught.value


def test_options_and_limits():
    x = np.ones(4)
    kinds = [lambda x: x[0] + x[1], lambda x: x[0] * x[1], lambda x: x[0] / x[1], lambda x: -x[0]]
    with pytest.raises(ti.WujiError) as caught:
        symbolic.trace(lambda x: [k(x) for k in kinds], x, max_groups=3)
    assert caught.value.code == "W0805" and __file__ in str(caught.value)
    # Fast math may cancel them, too.
    ti.init(arch=ti.cpu, fast_math=False)
    program = symbolic.trace(lambda x: (x[0] + x[1]) - x[0], x, sums=False, merge_chains=False)
    assert program(np.array([1e20, 1.0, 0.0, 0.0])) == 0.0
    size = lambda x: np.sqrt(x[0] * x[0] + x[1] * x[1])
    element = lambda x: (x[0] / size(x) + size(x) * x[1], np.sin(size(x)) + size(x) * x[0])
    apart, together = (symbolic.trace(element, x, detect_blocks=on) for on in (False, True))
    np.testing.assert_allclose(apart(x), together(x))
    assert len(str(apart.explain()).splitlines()) > len(str(together.explain()).splitlines())
    with pytest.raises(ti.WujiError, match="W0115"):
        symbolic.trace(lambda x: x, x, unknown=True)
    with pytest.raises(ti.WujiError, match="W0805"):
        symbolic.record(lambda x: x.sum(), np.ones(2000)).dot()


def test_threads_trace_at_the_same_time():
    results = {}

    def work(n):
        x = np.arange(n, dtype=float)
        results[n] = symbolic.trace(lambda x: np.sum(x * n), x)(x)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: n * sum(range(n)) for n in range(1, 6)}


def test_large_arrays_are_traced_quickly():
    n = 20_000
    values = np.ones(n)
    before = sys.getrecursionlimit()
    program = symbolic.trace(lambda x: (np.sqrt(x[1:] * x[:-1]) + 1.0, np.sum(x * x)), values)
    roots, total = program(values)
    assert (roots == 2.0).all() and total == n and sys.getrecursionlimit() == before
