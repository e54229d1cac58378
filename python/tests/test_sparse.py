"""Sparse layouts."""

import numpy as np
import pytest

import wuji as ti


def test_writes_activate_and_struct_fors_visit():
    x = ti.field(ti.f32)
    block = ti.root.pointer(ti.ij, 8)
    block.dense(ti.ij, 4).place(x)
    count = ti.field(ti.i32, shape=())

    @ti.kernel
    def paint():
        x[3, 5] = 1
        x[20, 30] = 2

    @ti.kernel
    def visit() -> ti.f32:
        s = 0.0
        for i, j in x:
            count[None] += 1
            s += x[i, j]
        return s

    paint()
    assert visit() == 3 and count[None] == 32
    assert x[0, 0] == 0 and x[31, 31] == 0 and count[None] == 32


def test_cell_activation():
    x = ti.field(ti.i32)
    block = ti.root.pointer(ti.i, 8)
    block.bitmasked(ti.i, 4).place(x)
    seen = ti.field(ti.i32, shape=8)

    @ti.kernel
    def f():
        ti.activate(block, [2])
        x[13] = 1

    @ti.kernel
    def blocks():
        for i in block:
            seen[i] += 1

    @ti.kernel
    def ask() -> ti.i32:
        return ti.is_active(block, [2]) * 1000 + ti.is_active(block, [3]) * 100 + ti.is_active(block, [4]) * 10 + ti.is_active(x.parent(), [13])

    f()
    blocks()
    assert seen.to_numpy().tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert ask() == 1101

    @ti.kernel
    def drop():
        ti.deactivate(block, [3])

    drop()
    assert ask() == 1000 and x[13] == 0
    block.deactivate_all()
    assert ask() == 0


def test_dynamic_lists():
    x = ti.field(ti.i32)
    lists = ti.root.dense(ti.i, 4)
    items = lists.dynamic(ti.j, 100, chunk_size=8)
    items.place(x)

    @ti.kernel
    def grow():
        for i in range(4):
            for k in range(i * 3):
                x[i].append(k * 10)
            ti.append(items, [i], 7)

    @ti.kernel
    def lengths() -> ti.types.vector(4, ti.i32):
        v = ti.Vector([0, 0, 0, 0])
        for i in ti.static(range(4)):
            v[i] = ti.length(items, [i]) + x[i].length()
        return v

    grow()
    assert lengths().to_list() == [2, 8, 14, 20]
    assert [x[2, k] for k in range(7)] == [0, 10, 20, 30, 40, 50, 7]

    @ti.kernel
    def clear():
        x[2].deactivate()

    clear()
    assert lengths().to_list() == [2, 8, 0, 20]


def test_unbounded_hash_grid():
    x = ti.field(ti.f32)
    ti.root.hash(ti.ij).dense(ti.ij, 8).place(x)

    @ti.kernel
    def f():
        x[-100000, 7] = 1.5
        x[123456, -9] = 2.5

    @ti.kernel
    def total() -> ti.f32:
        s = 0.0
        for i, j in x:
            s += x[i, j]
        return s

    f()
    assert total() == 4 and x[-100000, 7] == 1.5 and x[0, 0] == 0


def test_morton_order():
    x = ti.field(ti.i32)
    ti.root.dense(ti.ij, 16).morton().place(x)

    @ti.kernel
    def f():
        for i, j in x:
            x[i, j] = i * 16 + j

    f()
    assert (x.to_numpy() == np.arange(256).reshape(16, 16)).all()


def test_no_activate():
    x = ti.field(ti.i32)
    block = ti.root.pointer(ti.i, 4)
    block.dense(ti.i, 4).place(x)

    @ti.kernel
    def f():
        ti.no_activate(block)
        for i in range(16):
            x[i] = 1

    x[5] = 3
    f()
    assert x.to_numpy().tolist() == [0] * 4 + [1] * 4 + [0] * 8


def test_rescale_index_rounds_towards_negative_infinity():
    fine, coarse = ti.field(ti.f32), ti.field(ti.f32)
    ti.root.dense(ti.ij, (24, 24)).place(fine, offset=(-12, -12))
    ti.root.dense(ti.ij, (8, 6)).place(coarse, offset=(-4, -3))
    block = ti.root.pointer(ti.i, 4)
    inside = ti.field(ti.f32)
    block.dense(ti.i, 5).place(inside)
    down, up, nodes = (ti.Vector.field(2, ti.i32, 49) for _ in range(3))

    @ti.kernel
    def run():
        for k in range(49):
            i = k - 24
            down[k] = ti.rescale_index(fine, coarse, ti.Vector([i, i]))
            up[k] = ti.rescale_index(coarse, fine, ti.Vector([i, i]))
            nodes[k] = ti.Vector([ti.rescale_index(inside, block, ti.Vector([i]))[0], ti.rescale_index(block, inside, ti.Vector([i]))[0]])

    run()
    # Offsets do not count: the ratio of the extents does. Taichi 1.7 gives the same numbers.
    assert [tuple(v) for v in down.to_numpy()] == [(i // 3, i // 4) for i in range(-24, 25)]
    assert [tuple(v) for v in up.to_numpy()] == [(3 * i, 4 * i) for i in range(-24, 25)]
    assert [tuple(v) for v in nodes.to_numpy()] == [(i // 5, 5 * i) for i in range(-24, 25)]


def test_rescale_index():
    x = ti.field(ti.i32)
    block = ti.root.pointer(ti.ij, 4)
    block.dense(ti.ij, 8).place(x)

    @ti.kernel
    def f():
        for i, j in ti.ndrange((10, 12), (20, 22)):
            ti.activate(block, ti.rescale_index(x, block, [i, j]))

    @ti.kernel
    def g() -> ti.i32:
        return ti.is_active(block, [1, 2])

    f()
    assert g() == 1


def test_block_local():
    x, y = ti.field(ti.f32), ti.field(ti.f32)
    ti.root.pointer(ti.ij, 4).dense(ti.ij, 8).place(x)
    ti.root.pointer(ti.ij, 4).dense(ti.ij, 8).place(y)

    @ti.kernel
    def start():
        for i, j in ti.ndrange(32, 32):
            x[i, j] = i + j
            y[i, j] = 0

    @ti.kernel
    def blur():
        ti.block_local(x)
        for i, j in x:
            y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]

    start()
    blur()
    a = np.pad(np.add.outer(np.arange(32), np.arange(32)).astype("f4"), 1)
    assert (y.to_numpy() == a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]).all()


def test_inner_sparse_loops_are_rejected():
    x = ti.field(ti.f32)
    ti.root.pointer(ti.i, 4).dense(ti.i, 4).place(x)

    @ti.kernel
    def f():
        for k in range(3):
            for i in x:
                x[i] += 1

    with pytest.raises(ti.TaichiTypeError, match="outermost loop"):
        f()


def test_illegal_layouts_are_rejected():
    x = ti.field(ti.f32)
    ti.root.dense(ti.i, 4).hash(ti.i).place(x)
    with pytest.raises(ti.TaichiRuntimeError, match="a hash node without bounds splits axis `i`"):
        x[0]


@pytest.mark.parametrize("parent", ["dense", "bitmasked", "pointer", "hash"])
def test_hash_nodes_below_other_nodes(parent: str) -> None:
    x = ti.field(ti.i32)
    block = getattr(ti.root, parent)(ti.ij, 8)
    block.hash(ti.ij, 1000).dense(ti.ij, 2).place(x)

    @ti.kernel
    def scatter() -> None:
        for k in range(100):
            x[150 * k, 37 * k] += k + 1

    @ti.kernel
    def total() -> ti.i32:
        s = 0
        for i, j in x:
            s += x[i, j]
        return s

    @ti.kernel
    def remove(i: ti.i32, j: ti.i32) -> None:
        ti.deactivate(block, [i, j])

    scatter()
    assert total() == 5050 and x[150, 37] == 2 and x[151, 37] == 0
    if parent != "dense":
        # Elements 0 to 1999 along both axes.
        remove(0, 0)
        assert total() == 5050 - 105 and x[150, 37] == 0
        x[150, 38] = 7
        assert total() == 5050 - 105 + 7 and x[150, 37] == 0
        ti.deactivate_all_snodes()
        assert total() == 0
        scatter()
        assert total() == 5050


def test_unbounded_hash_nodes_below_other_nodes() -> None:
    x = ti.field(ti.i32)
    ti.root.pointer(ti.i, 4).hash(ti.j).place(x)
    x[3, -123456] = 5
    x[0, 99] = 6

    @ti.kernel
    def total() -> ti.i32:
        s = 0
        for i, j in x:
            s += x[i, j] * (i + 1) + j
        return s

    assert total() == 20 + 6 - 123456 + 99
    assert x[3, 99] == 0


def test_deactivate_all():
    x = ti.field(ti.f32)
    ti.root.pointer(ti.i, 4).dense(ti.i, 4).place(x)
    x[3] = 1
    ti.deactivate_all_snodes()
    assert x[3] == 0


def test_cells_of_a_node_are_numbered_from_zero_whatever_the_offset_of_its_fields() -> None:
    x = ti.field(ti.i32)
    outer = ti.root.pointer(ti.ij, 4)
    inner = outer.bitmasked(ti.ij, 4)
    inner.place(x, offset=(-8, -8))
    seen = ti.field(ti.i32, (3, 2))

    @ti.kernel
    def write() -> ti.types.vector(5, ti.i32):
        x[-7, -6] = 1
        return ti.Vector([ti.is_active(outer, [0, 0]), ti.is_active(inner, [1, 2]), ti.is_active(x.parent(), [1, 2]),
                          ti.is_active(inner, [-7, -6]), ti.is_active(outer, [-2, -2])], dt=ti.i32)  # fmt: skip

    @ti.kernel
    def visit():  # type: ignore[no-untyped-def]
        for i, j in x:
            seen[0, 0], seen[0, 1] = i, j
        for i, j in outer:
            seen[1, 0], seen[1, 1] = i, j
        for i, j in inner:
            seen[2, 0], seen[2, 1] = i, j

    @ti.kernel
    def move():  # type: ignore[no-untyped-def]
        ti.deactivate(inner, [1, 2])
        ti.activate(inner, [9, 10])

    assert write().to_list() == [1, 1, 1, 0, 0]
    visit()
    assert seen.to_numpy().tolist() == [[-7, -6], [0, 0], [1, 2]]
    move()
    visit()
    assert seen.to_numpy().tolist()[0] == [1, 2] and seen.to_numpy().tolist()[2] == [9, 10]


def test_lists_of_a_node_are_numbered_from_zero_whatever_the_offset_of_its_fields() -> None:
    x = ti.field(ti.i32)
    lists = ti.root.dense(ti.i, 4).dynamic(ti.j, 16, 4)
    lists.place(x, offset=(-2, 5))

    @ti.kernel
    def f() -> ti.types.vector(4, ti.i32):
        a = ti.append(lists, 0, 42)
        b = ti.append(x.parent(), [0], 43)
        c = ti.append(lists, 3, 44)
        return ti.Vector([a, b, c, ti.length(lists, 0)])

    @ti.kernel
    def clear() -> ti.types.vector(2, ti.i32):
        ti.deactivate(lists, [0])
        return ti.Vector([ti.length(lists, 0), ti.length(lists, 3)])

    assert f().to_list() == [0, 1, 0, 2]
    assert [x[-2, 5], x[-2, 6], x[1, 5], x[0, 5]] == [42, 43, 44, 0]
    assert clear().to_list() == [0, 1]


def test_particles_are_sorted_into_lists_of_blocks_of_a_grid_with_an_offset() -> None:
    n = 8
    ids, grid, total = ti.field(ti.i32), ti.field(ti.f32), ti.field(ti.i32, ())
    blocks = ti.root.pointer(ti.ij, n // 4)
    blocks.dense(ti.ij, 4).place(grid, offset=(-3, -3))  # in the middle of a block
    blocks.dynamic(ti.k, 64).place(ids, offset=(-3, -3, 0))

    @ti.kernel
    def build():  # type: ignore[no-untyped-def]
        for p in range(32):
            cell = ti.Vector([p % 8, (p // 8) * 2])
            ti.append(ids.parent(), ti.rescale_index(grid, ids.parent(2), cell), p)

    @ti.kernel
    def use():  # type: ignore[no-untyped-def]
        for i in ti.grouped(ids):
            total[None] += ids[i]

    build()
    use()
    assert total[None] == sum(range(32))


def test_appended_values_are_those_of_all_fields():
    ids, mass = ti.field(ti.i32), ti.field(ti.f32, needs_grad=True)
    lists = ti.root.dense(ti.i, 3).dynamic(ti.j, 8)
    lists.place(ids, mass, mass.grad)
    particle = ti.types.struct(id=ti.i32, at=ti.types.vector(2, ti.f32))
    particles = particle.field()
    bins = ti.root.dynamic(ti.i, 8)
    bins.place(particles)

    @ti.kernel
    def run():
        ti.append(lists, ti.Vector([1]), [4, 2.5])
        ti.append(bins, [], particle(7, ti.Vector([1.0, 2.0])))

    run()
    assert (ids[1, 0], mass[1, 0]) == (4, 2.5)
    assert particles[0].id == 7
    assert list(particles[0].at) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        (0, IndexError, "`append` of .* takes 1 index, not 0"),
        (1, IndexError, "`append` of .* takes 1 index, not 2"),
        (2, IndexError, "`append` of .* takes 1 index, not 2"),
        (3, TypeError, "only works on dynamic nodes"),
        (4, TypeError, "needs an element for each field in it: 1 values, not 2"),
        (5, TypeError, "needs an element for each field in it: 1 values, not 0"),
        (6, IndexError, "`length` of .* takes 1 index, not 0"),
        (7, IndexError, "`length` of .* takes 1 index, not 2"),
        (8, TypeError, "needs SNodes or fields, not the number 1"),
        (9, ti.TaichiSyntaxError, "can only be called from Python"),
        (10, ti.TaichiSyntaxError, "can only be called from Python"),
    ],
)
def test_wrong_uses_of_nodes_are_errors_of_the_frontend(case, error, message):
    x = ti.field(ti.i32)
    node = ti.root.dense(ti.i, 3).dynamic(ti.j, 8)
    node.place(x)

    @ti.kernel
    def run():
        if ti.static(case == 0):
            ti.append(node, [], 1)
        if ti.static(case == 1):
            ti.append(node, [0, 1], 1)
        if ti.static(case == 2):
            ti.append(x, [0, 1], 1)
        if ti.static(case == 3):
            ti.append(node.parent(), 0, 1)
        if ti.static(case == 4):
            ti.append(node, 0, [1, 2])
        if ti.static(case == 5):
            ti.append(node, 0, [])
        if ti.static(case == 6):
            ti.length(node, [])
        if ti.static(case == 7):
            ti.length(node, [0, 1])
        if ti.static(case == 8):
            ti.rescale_index(1, node, [0])
        if ti.static(case == 9):
            ti.root.dense(ti.i, 4)
        if ti.static(case == 10):
            node.dense(ti.i, 4)

    with pytest.raises(error, match=message):
        run()


def test_deactivation_of_a_dense_cell_has_no_effect():
    block = ti.root.pointer(ti.i, 4)
    inner = block.dense(ti.i, 4)
    x = ti.field(ti.i32)
    inner.place(x)

    @ti.kernel
    def f(i: ti.i32):
        x[i] = 7
        ti.deactivate(inner, [i])

    f(5)
    assert x[5] == 7


def test_coordinates_of_cells_may_be_floats():
    block = ti.root.pointer(ti.ij, 4)
    x = ti.field(ti.i32)
    block.place(x)
    items = ti.field(ti.i32)
    ti.root.dense(ti.i, 4).dynamic(ti.j, 8).place(items)

    @ti.kernel
    def f(at: ti.math.vec2, i: ti.f32) -> ti.i32:
        ti.activate(block, at)
        ti.activate(block, [1.0, at.y])
        ti.append(items.parent(), i, 3)
        return ti.is_active(block, [at.x, 1.75]) + 2 * ti.length(items.parent(), i + 0.25)

    assert f(ti.math.vec2(2.9, 1.2), 3.5) == 3
    assert x.parent()._num_dynamically_allocated == 2 and items[3, 0] == 3


@pytest.mark.parametrize("target", ["dense", "pointer"])
def test_a_copy_of_a_sparse_field_has_no_old_elements(target):
    x, y, other = ti.field(ti.i32), ti.Vector.field(2, ti.i32), ti.field(ti.i32)
    from_x, from_y = ti.field(ti.i32), ti.Vector.field(2, ti.i32)
    getattr(ti.root, target)(ti.i, 4).dense(ti.i, 2).place(x, y, other)
    ti.root.pointer(ti.i, 4).dense(ti.i, 2).place(from_x, from_y)
    x[1], y[1], other[1], x[4] = 1, [1, 2], 3, 9
    from_x[4], from_y[5] = 2, [5, 6]
    x.copy_from(from_x)
    y.copy_from(from_y)
    assert x.to_numpy().tolist() == [0, 0, 0, 0, 2, 0, 0, 0]
    assert y.to_numpy()[:, 1].tolist() == [0, 0, 0, 0, 0, 6, 0, 0]
    assert other[1] == 3
