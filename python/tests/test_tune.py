"""``ti.tune``: the search for quantized types."""

import numpy as np
import pytest

import wuji as ti


def oscillators(trial, steps=20, layout=lambda: ti.root.dense(ti.i, 32)):
    ti.init(arch=ti.cpu, cpu_max_num_threads=1)
    x = ti.Vector.field(2, trial.type("x", ti.f32))
    v = ti.Vector.field(2, trial.type("v", ti.f32))
    kind = ti.field(trial.type("kind", ti.i32))
    trial.place(layout(), x=x, v=v, kind=kind)

    @ti.kernel
    def start():
        for i in range(32):
            x[i] = [ti.cos(0.2 * i), ti.sin(0.2 * i)]
            v[i] = [0, 0]
            kind[i] = i % 3

    @ti.kernel
    def swing():
        for i in range(32):
            v[i] -= x[i] * (0.05 * (1 + kind[i]))
            x[i] += v[i] * 0.05

    start()
    for _ in range(steps):
        swing()
    trial.output("x", x)
    trial.output("energy", float((v.to_numpy() ** 2).sum()))


def test_the_least_memory_below_an_error_bound():
    tuned = ti.tune.quant(oscillators, error=2e-3)
    assert tuned.reference_bytes == 32 * 20
    assert tuned.point.error <= 2e-3
    assert tuned.point.bytes <= 32 * 8
    assert tuned.point.types["kind"] == ti.types.quant.int(2, signed=False, compute=ti.i32)
    text = str(tuned)
    assert "ti.BitpackedFields" in text and "error" in text
    for a, b in zip(tuned.front, tuned.front[1:], strict=False):
        assert a.bytes < b.bytes and a.error > b.error


def test_the_smallest_error_within_a_budget(tmp_path):
    tuned = ti.tune.quant(oscillators, memory_part=0.5, points=4)
    assert tuned.point.bytes <= tuned.reference_bytes / 2
    assert tuned.point.error < 1e-2
    tuned.save_plot(str(tmp_path / "front.svg"))
    assert (tmp_path / "front.svg").read_text().startswith("<svg")
    assert "qfixed(" in tuned.code("rust") or "qfloat(" in tuned.code("rust")


def test_the_code_makes_the_layout_that_was_tuned():
    tuned = ti.tune.quant(oscillators, error=2e-3, points=2)
    ti.init(arch=ti.cpu)
    names = {"ti": ti, "node": ti.root.dense(ti.i, 32)}
    exec(tuned.code(), names)
    names["x"].from_numpy(np.full((32, 2), 0.25, np.float32))
    assert names["x"].to_numpy() == pytest.approx(0.25, abs=1e-2)
    names["kind"][3] = 2
    assert names["kind"][3] == 2


def test_a_matrix_is_split_between_words():
    def program(trial):
        ti.init(arch=ti.cpu)
        f = ti.Matrix.field(3, 3, trial.type("f", ti.f32))
        trial.place(ti.root.dense(ti.i, 4), f=f)
        for i in range(4):
            f[i] = ti.Matrix([[0.1 * (i + 1) * (3 * a + b + 1) for b in range(3)] for a in range(3)])
        trial.output("f", f)

    tuned = ti.tune.quant(program, error=1e-4, points=3)
    assert tuned.point.error <= 1e-4 and tuned.point.bytes < tuned.reference_bytes
    ti.init(arch=ti.cpu)
    names = {"ti": ti, "node": ti.root.dense(ti.i, 4)}
    exec(tuned.code(), names)
    names["f"][2] = ti.Matrix([[0.5, 0, 0], [0, 0.5, 0], [0, 0, 1.5]])
    assert names["f"][2][2, 2] == pytest.approx(1.5, abs=1e-3)


def test_ranges_are_those_of_all_launches():
    def program(trial):
        ti.init(arch=ti.cpu)
        x = ti.field(trial.type("x", ti.f32))
        trial.place(ti.root.dense(ti.i, 4), x=x)

        @ti.kernel
        def fill(by: ti.f32):
            for i in range(4):
                x[i] = by * (i + 1)

        fill(3.0)
        fill(0.5)
        trial.output("x", x)

    # A type for the end alone would have the range 2.
    tuned = ti.tune.quant(program, memory_part=0.5, reserve=0.0)
    assert "12" in str(tuned).splitlines()[1]


def test_sparse_fields_are_tuned():
    tuned = ti.tune.quant(lambda trial: oscillators(trial, 5, lambda: ti.root.pointer(ti.i, 64).dense(ti.i, 8)), error=1e-2, points=2)
    assert tuned.reference_bytes == 32 * 20
    assert tuned.point.bytes < tuned.reference_bytes


def test_exceptions_of_the_program_are_raised():
    def program(trial):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ti.tune.quant(program, error=1e-3)


PROGRAM = """
import taichi as ti

def program(trial):
    ti.init(arch=ti.cpu)
    x = ti.field(trial.type("x", ti.f32))
    trial.place(ti.root.dense(ti.i, 8), x=x)

    @ti.kernel
    def fill():
        for i in range(8):
            x[i] = 0.1 * (i + 1)

    fill()
    trial.output("x", x)
"""


def test_the_command_tunes_a_file(tmp_path, capsys):
    from wuji.__main__ import main

    file = tmp_path / "sim.py"
    file.write_text(PROGRAM)
    plot = tmp_path / "front.svg"
    assert main(["tune", "quant", str(file), "--error", "1e-2", "--points", "2", "--plot", str(plot)]) == 0
    out = capsys.readouterr().out
    assert "chosen: " in out and "ti.BitpackedFields(max_num_bits=8)" in out
    assert plot.read_text().startswith("<svg")
    assert main(["tune", "quant", str(file), "--error", "1e-2", "--program", "main"]) == 2
    assert "no function `main`" in capsys.readouterr().err
    assert main(["tune", "quant", str(tmp_path / "no.py"), "--error", "1e-2"]) == 2
    assert main(["tune", "quant", str(file), "--memory", "1"]) == 1
    assert "W0163" in capsys.readouterr().err
    assert main(["tune", "quant", str(file)]) == 2


def mistaken(**changes):
    def program(trial):
        ti.init(arch=ti.cpu)
        x = ti.field(trial.type("x", ti.f32))
        trial.place(ti.root.dense(ti.i, 4), **{changes.get("place", "x"): x})
        x.fill(0.3)
        if changes.get("outputs", True):
            trial.output("x", changes.get("output", x))

    return program


@pytest.mark.parametrize(
    ("program", "options", "code", "words"),
    [
        (mistaken(), {}, "W0160", "no goal"),
        (mistaken(), {"error": 1e-3, "memory": 3}, "W0160", "more than one goal"),
        (mistaken(), {"error": -1.0}, "W0160", "positive"),
        (mistaken(), {"error": 1e-3, "norm": "l1"}, "W0160", "norm `l1`"),
        (mistaken(), {"error": 1e-3, "keep": "y"}, "W0160", "no field `y`"),
        (mistaken(outputs=False), {"error": 1e-3}, "W0160", "no outputs"),
        (mistaken(output="text"), {"error": 1e-3}, "W0160", "not a field"),
        (mistaken(place="y"), {"error": 1e-3}, "W0160", "has no type"),
        (mistaken(output=[1.0, float("nan")]), {"error": 1e-3}, "W0161", "nan|NaN"),
        (mistaken(), {"error": 1e-12}, "W0162", "1e-12"),
        (mistaken(), {"memory": 1}, "W0163", "do not fit 1 bytes"),
    ],
)
def test_mistakes_are_errors(program, options, code, words):
    with pytest.raises(ti.WujiError, match=words) as raised:
        ti.tune.quant(program, **options)
    assert raised.value.code == code
