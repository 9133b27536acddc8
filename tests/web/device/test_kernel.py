"""The compiled loops, and what follows from a tridiagonal matrix, against NumPy."""

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from .page import STATIC, Device

SIZES = [1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 63, 64, 65, 66, 97, 130]
# Functions of one matrix: its lower factor, inverse, product with itself; and its axes.
SCRIPT = """
async ({ n, given, wanted }) => {
  const load = (name) => import(`/static/device/${name}.js`);
  const { kernel: loaded } = await load("kernel");
  const { byRows, cholesky, inverse, product } = await load("linear");
  const { Spectrum } = await load("spectrum");
  const kernel = await loaded();
  const a = Float64Array.from(given);
  const space = { size: n, total: a, outOf: (rows) => rows };
  const spectrum = new Spectrum({ kernel, width: n }, space);
  return {
    factor: [...(cholesky(kernel, a, n) ?? [])],
    inverse: [...inverse(kernel, a, n)],
    squared: [...product(kernel, a, a, n, n, n)],
    rows: [...byRows(kernel, a, a, n, n, n)],
    values: [...spectrum.values],
    axes: spectrum.leading(wanted).map((row) => [...row]),
    indefinite: cholesky(kernel, a.map((x) => -x), n) === null,
  };
}
"""


def positive(n: int, seed: int) -> NDArray[np.float64]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(2 * n, n)) * (1 + np.arange(n))
    return x.T @ x / n


@pytest.mark.parametrize("n", SIZES)
def test_a_matrix(device: Device, n: int) -> None:
    a, wanted = positive(n, n), min(n, 10)
    found: Any = device.page.evaluate(
        SCRIPT, {"n": n, "given": a.ravel().tolist(), "wanted": wanted}
    )
    lower = np.tril(np.reshape(found["factor"], (n, n)))
    size = np.abs(a).max()
    np.testing.assert_allclose(lower @ lower.T, a, atol=1e-12 * size)
    np.testing.assert_allclose(np.reshape(found["inverse"], (n, n)) @ a, np.eye(n), atol=1e-8)
    for name in ("squared", "rows"):
        np.testing.assert_allclose(np.reshape(found[name], (n, n)), a @ a, rtol=1e-10)
    values = np.linalg.eigvalsh(a)
    np.testing.assert_allclose(found["values"], values, atol=3e-6 * values[-1])
    axes = np.array(found["axes"])
    np.testing.assert_allclose(axes @ axes.T, np.eye(wanted), atol=1e-5)
    np.testing.assert_allclose(axes @ a, values[-wanted:, None] * axes, atol=3e-5 * values[-1])
    assert found["indefinite"]


@pytest.mark.parametrize("n", [3, 40])
def test_axes_of_equal_length(device: Device, n: int) -> None:
    """Any of them will do, if they are at right angles."""
    a = np.diag([1.0] * (n - 1) + [2.0])
    found: Any = device.page.evaluate(SCRIPT, {"n": n, "given": a.ravel().tolist(), "wanted": n})
    axes = np.array(found["axes"])
    np.testing.assert_allclose(axes @ axes.T, np.eye(n), atol=1e-5)
    np.testing.assert_allclose(found["values"], np.diag(a), atol=1e-6)


def test_what_is_compiled_is_what_the_source_has(device: Device) -> None:
    """By the names of its functions: a compiler of another version gives other bytes."""
    source = (STATIC / "device" / "kernel.c").read_text()
    names: list[str] = device.page.evaluate(
        """async () => {
          const answer = await fetch("/static/device/kernel.wasm");
          const module = new WebAssembly.Module(await answer.arrayBuffer());
          return WebAssembly.Module.exports(module).map(({ name }) => name);
        }"""
    )
    assert set(names) == {*re.findall(r"^EXPORT\((\w+)\)", source, re.M), "__heap_base"}
