"""Kernels in a notebook."""

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

CELLS = [
    "import wuji as ti\nti.init(arch=ti.cpu, offline_cache=False, verbose=False)\nx = ti.field(ti.i32, shape=4)",
    "@ti.kernel\ndef f(n: ti.i32):\n    for i in x:\n        x[i] = i * n\n    print('ran', n)",
    "f(3)\nprint(x.to_numpy().tolist())",
    # The same name again, with another body.
    "@ti.kernel\ndef f(n: ti.i32):\n    for i in x:\n        x[i] = n\nf(7)\nprint(x[3])",
    "@ti.kernel\ndef g():\n    y = unknown_name\ntry:\n    g()\nexcept ti.TaichiNameError as e:\n    print(str(e).splitlines()[3])",
]


def test_kernels_in_cells():
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()

    def printed(number):
        return "".join(o["text"] for o in book.cells[number].outputs if o["output_type"] == "stream")

    assert printed(2) == "ran 3\n[0, 3, 6, 9]\n"
    assert printed(3) == "7\n"
    assert "y = unknown_name" in printed(4)
