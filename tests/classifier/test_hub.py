"""Models shared and fetched, by a folder and by HTTP from a hub on this machine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import yaml

from command import in_new_process, ovor
from ovor import Classifier, OvorError
from ovor.classifier.file import read_model
from ovor.classifier.hub import FILE, card, escaped, fetch
from tiny import noisy, save_backbone

from .conftest import CLASSES
from .hub_server import COMMIT, Hub, serving

PULL = """
import json, os, sys
from ovor import Classifier, OvorError
found = []
for where in sys.argv[2:]:
    name, _, revision = where.partition("@")
    try:
        model = Classifier.from_pretrained(name, revision=revision or None, device="cpu")
        found.append(model.predict_proba(sys.argv[1]).tolist())
    except OvorError as error:
        found.append(str(error))
"""
TELL = "print(json.dumps(found))"
INTRUDE = """
os.environ["HF_TOKEN"] = "hf_wrong"
try:
    Classifier.from_pretrained("ann/garden", device="cpu").push_to_hub("eve/garden")
except OvorError as error:
    found.append(str(error))
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as found:
        yield found


@pytest.fixture
def settings(hub: Hub, tmp_path: Path) -> dict[str, str]:
    """The environment of a process that knows no other hub."""
    return {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_HOME": str(tmp_path / "home"),
        "HF_TOKEN": hub.token,
    }


# --- a folder


def test_share_and_fetch_a_folder(
    model: Classifier, model_file: Path, labelled: Path, tmp_path: Path
) -> None:
    shared, copy = tmp_path / "new" / "garden", tmp_path / "copy.ovor"
    done = ovor("share", model_file, shared, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"shared": str(shared)}
    assert sorted(path.name for path in shared.iterdir()) == ["README.md", FILE]
    assert (shared / FILE).read_bytes() == model_file.read_bytes()
    done = ovor("fetch", shared, copy, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"model": str(copy), "classes": len(CLASSES)}
    assert copy.read_bytes() == model_file.read_bytes()
    for where in (str(shared), shared):
        again = Classifier.from_pretrained(where, device="cpu")
        np.testing.assert_array_equal(again.predict_proba(labelled), model.predict_proba(labelled))
    assert "exists already" in ovor("fetch", shared, copy).stderr
    assert ovor("share", model_file, shared).returncode == 0  # a newer version in its place


def test_folders_that_will_not_do(model: Classifier, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("something else")
    with pytest.raises(OvorError, match="is a file: give a folder"):
        model.push_to_hub(str(file))
    assert file.read_text() == "something else"
    for where in (tmp_path, file, tmp_path / "nowhere"):
        with pytest.raises(OvorError, match=r"There is no model\.ovor in"):
            fetch(where)
    (tmp_path / FILE).write_bytes(b"damaged")
    done = ovor("fetch", tmp_path, tmp_path / "copy.ovor")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "copy.ovor").exists()


@pytest.mark.parametrize(
    "where",
    ["name", "a/b/c", "owner/na me", "öwner/name", "", "owner/a--b", "-owner/name", "o/x.git"],
)
def test_wrong_names(where: str, model: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for ask in (fetch, model.push_to_hub):
        with pytest.raises(OvorError, match="is no place for a model: give a repository"):
            ask(where)


# --- the hub


def test_push_and_pull_over_http(
    model: Classifier, model_file: Path, labelled: Path, hub: Hub, settings: dict[str, str]
) -> None:
    done = in_new_process("share", model_file, "ann/garden", "--private", **settings)
    assert done.returncode == 0
    assert done.stdout == "Shared in ann/garden: others get it by `ovor fetch ann/garden MODEL`.\n"
    assert [said["name"] for said in hub.created] == ["garden"]
    assert hub.created[0].get("private") or hub.created[0].get("visibility") == "private"
    files = hub.repositories["ann/garden"]
    assert files.keys() == {"README.md", FILE}
    assert files["README.md"].decode() == hub.cards[0] == card(model.about(), "ann/garden")
    hub.repositories["ann/empty"] = {}
    asked = ["ann/garden", f"ann/garden@{COMMIT}", "ann/garden@v9", "ann/empty", "bob/none"]
    done = in_new_process(labelled, *asked, code=PULL + INTRUDE + TELL, **settings)
    assert done.returncode == 0, done.stderr
    first, second, *errors, refused = json.loads(done.stdout)
    # Another process, by another number of threads maybe: float32 sums of a few hundred terms.
    np.testing.assert_allclose(first, model.predict_proba(labelled), rtol=1e-4)
    assert second == first
    assert errors == [
        "ann/garden has no revision 'v9': give a commit, branch or tag of it, or none.",
        "ann/empty has no model.ovor, so it was not shared by ovor: check the name.",
        "The Hugging Face hub has no bob/none that you may read: check the name, or log in with "
        "`hf auth login`.",
    ]
    assert refused.startswith("eve/garden cannot be written on the Hugging Face hub (")
    assert "hf auth login" in refused
    assert "eve/garden" not in hub.repositories


def test_without_network(settings: dict[str, str], labelled: Path) -> None:
    nowhere = {**settings, "HF_ENDPOINT": "http://127.0.0.1:9"}
    impatient = "import time; time.sleep = lambda seconds: None"  # between huggingface_hub's tries
    done = in_new_process(labelled, "ann/garden", code=impatient + PULL + TELL, **nowhere)
    (error,) = json.loads(done.stdout)
    assert error == (
        "The Hugging Face hub cannot be reached, and ann/garden is not in its cache: check the "
        "network, or give a folder."
    )


class Recording:
    """In the place of HfApi."""

    published: ClassVar[dict[str, bytes]] = {}

    def create_repo(self, where: str, *, private: bool, exist_ok: bool) -> None:
        self.published.clear()

    def upload_folder(self, repo_id: str, folder_path: str, commit_message: str) -> None:
        self.published.update({p.name: p.read_bytes() for p in Path(folder_path).iterdir()})


def test_no_path_of_this_machine_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.HfApi", Recording)
    backbone = save_backbone(tmp_path / "tiny.safetensors")
    images, labels = noisy(["a", "b"], 1)
    Classifier(str(backbone), "simplecil").learn(images, labels).push_to_hub("ann/tiny")
    assert Recording.published.keys() == {"README.md", FILE}
    for content in Recording.published.values():
        assert str(tmp_path).encode() not in content
    (tmp_path / "got.ovor").write_bytes(Recording.published[FILE])
    assert read_model(tmp_path / "got.ovor").about.backbone.name == "tiny.safetensors"
    with pytest.raises(OvorError, match=r"needs the backbone tiny\.safetensors"):
        Classifier.load(tmp_path / "got.ovor")
    model = Classifier.load(tmp_path / "got.ovor", backbone=str(backbone))
    assert model.predict(images).tolist() == labels


# --- the page


def test_the_card(tmp_path: Path) -> None:
    backbone = save_backbone(tmp_path / "tiny.safetensors")
    names = [
        "a|b",
        "<script>",
        "*bold* _it_ `code`",
        "[x](y)",
        "{braces}",
        "\\|",
        "ü",
    ]
    model = Classifier(str(backbone), "simplecil").learn(*noisy(names, 1))
    said = card(model.about(), './it"s')
    _, front, text = said.split("---\n", 2)
    about = yaml.safe_load(front)
    assert about["library_name"] == "ovor"
    assert about["pipeline_tag"] == "image-classification"
    assert 'from_pretrained("./it\\"s")' in text
    assert "Classes: 7, in 1 lesson" in text
    assert str(tmp_path) not in text
    (row,) = [line for line in said.splitlines() if line.startswith("| 1 |")]
    for shown in (
        r"a\|b",
        r"\<script\>",
        r"\*bold\* \_it\_ \`code\`",
        r"\[x\](y)",
        "{braces}",
        r"\\\|",
        "ü",
    ):
        assert shown in row
    assert row.endswith(" | 7 |")
    assert escaped("two\nlines") == "two lines"
