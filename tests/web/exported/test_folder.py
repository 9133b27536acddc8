"""The folder that `ovor export --web` writes: what is in it, and when it is not written."""

import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from command import ovor
from drawings import draw
from ovor import Classifier
from ovor.errors import OvorError
from ovor.web import exported_page, runtime_files
from ovor.web.exported_page import check_folder, export_page
from ovor.web.npm_package import NpmPackage, PackageError
from small_texts import text_folder

from .conftest import visited

pytestmark = pytest.mark.xdist_group("exported")


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return found


def test_the_manifest_lists_every_file_with_its_digest(drawings_page: Path) -> None:
    said = manifest(drawings_page)
    there = {
        p.relative_to(drawings_page).as_posix() for p in drawings_page.rglob("*.*") if p.is_file()
    }
    assert there == {*said["files"], "manifest.json", "sw.js"}
    for name, about in said["files"].items():
        content = (drawings_page / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (
            about["bytes"],
            about["sha256"],
        )
    digest = hashlib.sha256((drawings_page / "manifest.json").read_bytes()).hexdigest()
    assert digest in (drawings_page / "sw.js").read_text()


def test_the_page_is_the_served_one_but_for_its_backend(drawings_page: Path) -> None:
    served = Path(str(exported_page.STATIC))
    for path in (drawings_page / "static").glob("*.*"):
        same = path.read_bytes() == (served / path.name).read_bytes()
        assert same == (path.name != "backend.js"), path.name
    page = (drawings_page / "index.html").read_text()
    assert exported_page.POLICY in page
    assert "default-src 'none'" in page
    kept = page.replace('<body class="on-device">', "<body>").splitlines()
    own = ("Content-Security-Policy", "as_file.js")
    kept = [line for line in kept if not any(sign in line for sign in own)]
    assert kept == (served / "page.html").read_text().splitlines()


def test_nothing_names_a_host(drawings_page: Path) -> None:
    """What the page's own files say of addresses is SVG's name space, and this machine."""
    for path in [
        *drawings_page.rglob("static/**/*.js"),
        drawings_page / "sw.js",
        drawings_page / "index.html",
    ]:
        words = path.read_text()
        assert words.replace("http://www.w3.org/2000/svg", "").count("://") == 0, path


def test_runtime_comes_with_its_licence_and_version(drawings_page: Path) -> None:
    assert manifest(drawings_page)["runtime"] == "onnxruntime-web@1.30.0"
    assert "Microsoft Corporation" in (drawings_page / "runtime/LICENSE.txt").read_text()


def test_the_encoder_says_what_the_page_is_asked_about(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(drawings_page, copy)
    said = manifest(copy)
    assert said["encoder"]["reads"] == {"one": "image", "many": "images", "written": False}
    said["encoder"]["reads"] = {"one": "sound", "many": "sounds", "written": False}
    said["about"]["backbone"]["reads"] = "sounds"
    (copy / "manifest.json").write_text(json.dumps(said))
    with visited(browser, copy) as page:
        expect(page.locator('[data-word="many"]').first).to_have_text("sounds")


def test_a_model_goes_with_its_page_and_its_name(
    drawings_page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command; the encoder, which takes most of the time, is that of the other page."""
    content = (drawings_page / "encoder.onnx").read_bytes()
    monkeypatch.setattr(exported_page, "export_encoder", lambda model: (content, FEATURES))
    model = Classifier("embedded", device="cpu").learn(draw(tmp_path / "a", ["fish", "owl"], 3))
    model.save(tmp_path / "pond.ovor")
    done = ovor("export", tmp_path / "pond.ovor", tmp_path / "pond", "--web")
    assert done.returncode == 0, done.stderr
    assert "that knows 2 classes. Put it on any web server" in done.stdout
    said = manifest(tmp_path / "pond")
    assert (said["name"], said["model"], said["about"]) == ("pond.ovor", "model.ovor", None)
    assert (tmp_path / "pond/model.ovor").read_bytes() == (tmp_path / "pond.ovor").read_bytes()
    again = ovor("export", "--web", tmp_path / "pond", "--backbone", "embedded", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["classes"] == 0
    assert manifest(tmp_path / "pond")["model"] is None
    assert not (tmp_path / "pond/model.ovor").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "pond", "pond.ovor"]


class FakeFeatures(bytes):
    def tobytes(self) -> bytes:
        return self


FEATURES = FakeFeatures(b"1234")


def test_a_folder_with_something_else_stays(tmp_path: Path, drawings_page: Path) -> None:
    (tmp_path / "own").mkdir()
    check_folder(tmp_path / "own")  # it is empty
    (tmp_path / "own/letter.txt").write_text("mine")
    with pytest.raises(OvorError, match=r"holds something else \(letter.txt\): choose another"):
        check_folder(tmp_path / "own")
    with pytest.raises(OvorError, match="is a file: choose another name"):
        check_folder(tmp_path / "own/letter.txt")
    with pytest.raises(OvorError, match="There is no folder"):
        check_folder(tmp_path / "nowhere/page")
    copy = shutil.copytree(drawings_page, tmp_path / "page")
    check_folder(copy)  # an export before
    (copy / "static/mine.js").write_text("")
    with pytest.raises(OvorError, match=r"holds something else \(static/mine.js\)"):
        check_folder(copy)


def test_what_fails_leaves_what_was_there(
    drawings_page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(drawings_page, tmp_path / "page")
    before = manifest(copy)
    monkeypatch.setattr(exported_page, "export_encoder", lambda model: (b"", FEATURES))
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="full"):
        export_page(Classifier("embedded", device="cpu"), None, copy)
    assert manifest(copy) == before
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def full(path: Path, content: bytes) -> int:
    if path.name == "manifest.json":
        raise OSError("full")
    with path.open("wb") as file:
        return file.write(content)


def test_only_exact_models_of_encoders_that_export(tmp_path: Path) -> None:
    said = ovor("export", "--web", tmp_path / "p", "--bundle")
    assert said.returncode == 2
    model = Classifier("embedded", "simplecil", device="cpu")
    model.learn(draw(tmp_path / "a", ["fish", "owl"], 3)).save(tmp_path / "m.ovor")
    said = ovor("export", tmp_path / "m.ovor", tmp_path / "p", "--web")
    assert said.returncode == 1
    assert "a page does not train: use a model of the method analytic" in said.stderr
    assert "FOLDER after the model" in ovor("export", tmp_path / "m.ovor", "--web").stderr
    assert not (tmp_path / "p").exists()


def test_a_model_for_predicting_only_is_refused(tmp_path: Path) -> None:
    model = Classifier("embedded", device="cpu").learn(draw(tmp_path / "a", ["fish", "owl"], 3))
    model.save(tmp_path / "m.ovor", sums=False)
    said = ovor("export", tmp_path / "m.ovor", tmp_path / "p", "--web")
    assert "for predicting only, without the sums" in said.stderr


def package(folder: Path, content: bytes = b"wasm") -> NpmPackage:
    """Write a small package as npm would, and return what pins it."""
    inside = folder / "engine.wasm"
    inside.write_bytes(content)
    with tarfile.open(folder / "some-1.0.0.tgz", "w:gz") as archive:
        archive.add(inside, "package/dist/engine.wasm")
    inside.unlink()
    return NpmPackage(
        "some", "1.0.0", "sha512-" + "A" * 86 + "==", {"e.wasm": "package/dist/engine.wasm"}
    )


def test_a_package_of_other_content_is_refused(tmp_path: Path) -> None:
    pinned = package(tmp_path)
    with pytest.raises(PackageError, match=r"is not some@1.0.0 as it was published: remove it"):
        pinned.content(tmp_path / "some-1.0.0.tgz")


def test_without_npm_a_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = package(tmp_path)
    monkeypatch.setattr(runtime_files, "pinned", lambda: pinned)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OvorError, match=r"npm pack some@1.0.0`, and say where it is \(--runtime"):
        runtime_files.runtime_files()
    with pytest.raises(OvorError, match=r"There is no file .*cache: make it by `npm pack"):
        runtime_files.runtime_files(tmp_path / "cache")


def test_an_encoder_of_texts_is_refused(tmp_path: Path) -> None:
    text_folder(tmp_path / "words")
    said = ovor("export", "--web", tmp_path / "p", "--backbone", f"text:{tmp_path}/words")
    assert said.returncode == 1
    assert "reads texts, and a page without a server asks about images" in said.stderr
    assert not (tmp_path / "p").exists()
