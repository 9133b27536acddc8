"""docs/security.md and docs/serving.md say what is in the code, and name tests that there are."""

import re
from pathlib import Path

from ovor.web import connections, decoding, images, lesson_routes, security
from ovor.web.settings import Limits

ROOT = Path(__file__).parents[2]
SECURITY = (ROOT / "docs/security.md").read_text()
SERVING = (ROOT / "docs/serving.md").read_text()
LINES = " ".join(SECURITY.split())


def test_the_tests_that_promises_name_are_there() -> None:
    promised = SECURITY.partition("## Promised")[2].partition("## How")[0]
    lines = [line for line in promised.splitlines() if line.startswith("| ")]
    rows = [line for line in lines if not line.startswith("| to whom ")]
    files = set(re.findall(r"`(tests/\S+\.py)`", promised))
    names = set(re.findall(r"`(test_\w+|still_well)`", promised))
    defined = "".join(path.read_text() for path in (ROOT / "tests/web").rglob("*.py"))
    assert all("`" in row.split("|")[3] for row in rows)
    assert all((ROOT / file).exists() for file in files)
    assert all(f"def {name}(" in defined for name in names)
    assert len(rows) > 8


def test_the_numbers_are_those_of_the_code() -> None:
    limits = Limits()
    assert limits.decoding_seconds == 10
    assert "ten seconds of a processor" in LINES
    for text in (SECURITY, SERVING):
        assert f"{images.BYTES_PER_PIXEL} bytes" in text
        assert f"{images.MOST_SCANS} scans" in " ".join(text.split())
    assert images.WEBP_COUNTS == 1.5
    assert "in a WebP 20, which may therefore have two thirds" in SERVING
    assert images.BYTES_PER_PIXEL * images.WEBP_COUNTS < 20
    assert images.LIGHT_BYTES == 10**6
    assert images.LIGHT_PIXELS == 3 * 10**6
    assert "a megabyte, three million pixels" in LINES
    assert f"{images.LIGHT_SCANS} scans" in LINES
    assert (decoding.LIGHT, decoding.HEAVY, decoding.LIGHT_SECONDS) == (4, 2, 1)
    assert "Four of them" in LINES
    assert "waits for two others" in LINES
    kept = connections.ACCEPTED * connections.TURNS + connections.OTHER_FILES
    assert f"all but {kept} may be connections, and at most {connections.MOST:,}" in LINES
    assert connections.HEADER_SECONDS == security.STALL_SECONDS == 20
    assert "has 20 seconds to send a request, a body may pause for 20" in LINES
    assert f"may lie unread for {connections.UNREAD_SECONDS}" in LINES
    assert f"now {lesson_routes.MOST_LISTENERS}" in LINES
