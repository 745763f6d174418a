"""Drives a headless Chromium by its command line: pages in frames of several widths, which tell what they find.

A copy of each page gets the checking script in front of its own; it posts its findings to the page around the frames,
whose document is then printed. No other program and no network is needed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any, Literal

NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = "UNISONO_INSTALL_BROWSER"
"""Set to 1, a test that runs as root may install Chromium with apt."""
CHECKS = Path(__file__).with_name("page_checks.js")
SECONDS = 120

Scheme = Literal["light", "dark"]
_SCHEMES: Mapping[Scheme, str] = {"dark": "0", "light": "1"}
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def find_browser() -> Path | str:
    """Where Chromium is, or in words why it is not there."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and os.environ.get(INSTALL) == "1" and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            return f"apt-get could not install chromium: {done.stderr.strip().splitlines()[-1:]}"
        found = shutil.which("chromium")
    if found is None:
        return f"there is no {' or '.join(NAMES)}: install one, or run as root with {INSTALL}=1, and apt-get brings it"
    return Path(found)


def look(
    browser: Path, pages: Mapping[str, str], widths: Sequence[int], scheme: Scheme, folder: Path
) -> dict[tuple[str, int], dict[str, Any]]:
    """What the checking script finds in each page at each width, in one light."""
    frames = []
    checks = CHECKS.read_text(encoding="utf-8")
    for name, text in pages.items():
        assert text.count("<head>") == 1
        copy = folder / f"{name}-{scheme}.html"
        copy.write_text(text.replace("<head>", f"<head><script>{checks}</script>"), encoding="utf-8")
        frames += [
            f'<iframe name="{name} {width}" src="{copy.name}" style="width:{width}px;height:900px;border:0"></iframe>'
            for width in widths
        ]
    around = folder / f"around-{scheme}.html"
    around.write_text(
        '<!DOCTYPE html><pre id="findings"></pre><script>const found = [];addEventListener("message", (event) => {'
        'found.push(event.data);document.getElementById("findings").textContent = JSON.stringify(found);});</script>'
        + "".join(frames),
        encoding="utf-8",
    )
    printed = _run(
        browser, scheme, "--virtual-time-budget=20000", "--window-size=1400,900", "--dump-dom", around.as_uri()
    )
    findings = re.search(r'<pre id="findings">(.*?)</pre>', printed, re.DOTALL)
    assert findings is not None
    assert findings[1], "the pages did not answer"
    told = {(str(one["page"]), int(one["width"])): one for one in json.loads(unescape(findings[1]))}
    missing = [(name, width) for name in pages for width in widths if (name, width) not in told]
    assert not missing, f"no answer from {missing}"
    return told


def _run(browser: Path, scheme: Scheme, *arguments: str) -> str:
    with tempfile.TemporaryDirectory(prefix="unisono-browser-", ignore_cleanup_errors=True) as profile:
        light = f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}"
        command = [str(browser), *_FLAGS, f"--user-data-dir={profile}", light, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
