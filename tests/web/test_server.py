"""`ovor serve` from its start to its end: what cannot be served, and what signals do."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import ovor
from ovor.classifier.file import read_model

from .live import SECOND, Live, begun, drawn, events, serving, until


@pytest.mark.parametrize(
    ("options", "environ", "says"),
    [
        (["m.ovor", "--host", "0.0.0.0"], {}, "set a token (OVOR_TOKEN"),
        (["m.ovor", "--host", "::"], {}, "set a token (OVOR_TOKEN"),
        (["m.ovor"], {"OVOR_TOKEN": ""}, "The token is empty"),
        (["m.ovor"], {"OVOR_ASK_TOKEN": " "}, "The token is empty"),
        (["m.ovor", "--token", "x", "--ask-token", "x"], {}, "The two tokens are the same"),
        (["nowhere/new.ovor", "--port", "0"], {}, "There is no folder nowhere"),
        (["m.ovor", "--port", "0", "--inbox", "m.ovor"], {}, "m.ovor cannot keep the inbox"),
        (["m.ovor", "--port", "0", "--exam", "exam"], {}, "exam does not exist"),
        (["m.ovor", "--host", "no.invalid", "--token", "x"], {}, "cannot be served at"),
        (["m.ovor", "--port", "{taken}"], {}, "choose another --host or --port"),
    ],
)
def test_what_cannot_be_served(
    place: Path,
    shared: Live,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    environ: dict[str, str],
    says: str,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    done = ovor("serve", *(option.format(taken=shared.port) for option in options), cwd=place)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert says in line


def test_help_and_missing_packages() -> None:
    code = (
        "import sys; sys.argv = ['ovor', 'serve', *sys.argv[1:]]\n"
        "from ovor.cli import main\n"
        "try: main()\n"
        "finally: print('fastapi' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.endswith("False False\n")
    hidden = "import sys; sys.modules['uvicorn'] = None\n" + code
    done = subprocess.run([sys.executable, "-c", hidden, "m.ovor"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'ovor[serve]'" in done.stderr


def test_a_signal_lets_the_lesson_end(slow: Live) -> None:
    number = slow.teach(SECOND, epochs="40").json()["id"]
    slow.until(number, "learning")
    [heard] = begun(lambda: events(slow, number))
    time.sleep(0.3)
    slow.send(signal.SIGTERM)
    until(lambda: slow.client.get("/healthz").status_code == 503)
    assert slow.client.get("/healthz").json() == {"status": "stopping"}
    assert slow.predict(*drawn("banana", 1)).status_code == 503
    assert slow.teach(["fish"]).status_code == 503
    slow.process.join(60)
    assert slow.process.exitcode == 0
    assert heard.result(10)[-1]["state"] == "done"
    assert len(read_model(slow.model).about.tasks) == 2
    assert "again to cancel it" in slow.said()
    assert list((slow.folder / "tmp").iterdir()) == []


def test_a_second_signal_cancels_it(slow: Live) -> None:
    before = slow.model.read_bytes()
    slow.begin()
    child = slow.child()
    slow.send(signal.SIGINT)
    until(lambda: "again to cancel it" in slow.said())
    assert slow.end(signal.SIGINT) == 0
    assert slow.model.read_bytes() == before
    assert not Path(f"/proc/{child}").exists()
    assert list((slow.folder / "tmp").iterdir()) == []


def test_a_killed_server_takes_its_lesson_along(slow_place: Path) -> None:
    before = (slow_place / "m.ovor").read_bytes()
    with serving(slow_place) as live:
        live.begin()
        child = live.child()
        live.end(signal.SIGKILL)
        until(lambda: not Path(f"/proc/{child}").exists())
    assert (slow_place / "m.ovor").read_bytes() == before
    assert len(list((slow_place / "tmp").iterdir())) == 1
    with serving(slow_place) as live:
        assert len(list((slow_place / "tmp").iterdir())) == 1
        assert live.scratch() == []  # what the first had left is gone
        assert live.learn(SECOND)["lesson"] == 2
        assert live.end() == 0
    assert list((slow_place / "tmp").iterdir()) == []
