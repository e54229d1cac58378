"""Kernels in a notebook."""

import base64

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

CELLS = [
    "import wuji as ti\nti.init(arch=ti.cpu, offline_cache=False, verbose=False)\nx = ti.field(ti.i32, shape=4)",
    "@ti.kernel\ndef f(n: ti.i32):\n    for i in x:\n        x[i] = i * n\n    print('ran', n)",
    "f(3)\nprint(x.to_numpy().tolist())",
    # Same name, different body.
    "@ti.kernel\ndef f(n: ti.i32):\n    for i in x:\n        x[i] = n\nf(7)\nprint(x[3])",
    "@ti.kernel\ndef g():\n    y = unknown_name\ntry:\n    g()\nexcept ti.TaichiNameError as e:\n    print(str(e).splitlines()[3])",
]


def played(cells):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in book.cells]


def test_kernels_in_notebook_cells():
    outputs = played(CELLS)

    def printed(number):
        return "".join(o["text"] for o in outputs[number] if o["output_type"] == "stream")

    assert printed(2) == "ran 3\n[0, 3, 6, 9]\n"
    assert printed(3) == "7\n"
    assert "y = unknown_name" in printed(4)


PICTURE = [
    "import wuji as ti\nti.init(arch=ti.cpu, offline_cache=False, verbose=False)\npixels = ti.Vector.field(3, ti.f32, shape=(24, 16))\npixels.fill(0.5)",
    "ti.tools.imshow(pixels)",
    "import numpy as np\nti.tools.imshow(np.zeros((5, 4), np.uint8), 'grey')",
]


def test_images_are_shown_in_notebook_cells():
    outputs = played(PICTURE)
    sizes = []
    for shown in outputs[1:]:
        (picture,) = (o for o in shown if o["output_type"] == "display_data")
        png = base64.b64decode(picture["data"]["image/png"])
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        sizes.append((int.from_bytes(png[16:20]), int.from_bytes(png[20:24])))
    # The first index is x, to the right.
    assert sizes == [(24, 16), (5, 4)]
