"""WebGPU computes what Python does, by the processor in the place of a graphics processor."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from chromium import launched

from .serving import file_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exported")]

FLAGS = ("--enable-unsafe-webgpu", "--enable-features=Vulkan", "--use-webgpu-adapter=swiftshader")
OPENED = """async (manifest) => {
  const real = navigator.gpu?.requestAdapter.bind(navigator.gpu);
  if (!(await real?.())) return null;
  let asked = false;
  navigator.gpu.requestAdapter = async (...more) => {
    if (asked) return real(...more);
    asked = true; // by the page, which would take no played one
    return { info: { isFallbackAdapter: false } };
  };
  const { Encoder } = await import("/static/device/encoder.js");
  const { engine, words } = await Encoder.open(location.origin + "/", manifest);
  return [engine, words];
}"""


def test_it_is_used_if_its_features_are_the_same(browser: Browser, drawings_page: Path) -> None:
    manifest = json.loads((drawings_page / "manifest.json").read_text())
    own = launched(browser.browser_type, *FLAGS)
    with file_server(drawings_page) as address:
        page = own.new_page(base_url=address)
        page.set_default_timeout(240_000)
        page.goto("/README.txt")
        found = page.evaluate(OPENED, manifest)
    own.close()
    if found is None:
        pytest.skip("this Chromium has no WebGPU")
    assert found == ["webgpu", "WebGPU"]
