"""Make the picture at the top of the README: a report, a map of uncertainty and odds ratios, side by side.

python docs/assets/first_look.py

The report is photographed in Chromium. Without it, or without playwright (the extra ``test``), the picture stays as
it is.
"""

import io
import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib
from PIL import Image

from oddsmith import LogisticRegression, Standardize
from oddsmith.data import load_dataset
from oddsmith.lectures.gallery import draw

PICTURE = Path(__file__).with_name("first_look.png")
WIDTH, HEIGHT, PAGE = 1500, 620, 860
ZOOM = 1.2  # a wider window, so that the contents stand beside the text


def main() -> None:
    """Write the picture."""
    page = photograph()
    if page is None:
        print(
            "first_look: no Chromium or no playwright, so the picture of the README is left as it is", file=sys.stderr
        )
        return
    sheet = Image.new("RGB", (WIDTH, HEIGHT), "white")
    sheet.paste(page, (0, 0))
    for name, top in (("uncertainty", 0), ("coefficients", HEIGHT // 2)):
        panel = drawn(name, WIDTH - PAGE - 20, HEIGHT // 2 - 10)
        sheet.paste(panel, (PAGE + (WIDTH - PAGE - panel.width) // 2, top + (HEIGHT // 2 - panel.height) // 2))
    sheet.quantize(128).save(PICTURE, optimize=True)
    print(f"first_look: {PICTURE.stat().st_size / 1000:.0f} kB")


def photograph() -> Image.Image | None:
    """Return the top of a report as a browser shows it, None without one."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        return None
    table = load_dataset("breast_cancer")
    model = LogisticRegression(prior=1.0, basis=Standardize()).fit(table, "diagnosis")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = Path(folder) / "report.html"
        words = {"author": "A. Reader", "period": "1993", "purpose": "second opinion on biopsies"}
        model.report(table, "diagnosis", str(path), title="Benign or malignant?", **words)
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        window = {"width": int(ZOOM * PAGE), "height": int(ZOOM * HEIGHT)}
        page = browser.new_page(viewport=window, color_scheme="light")
        page.goto(path.as_uri())
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    return picture.resize((PAGE, HEIGHT), Image.Resampling.LANCZOS)


def drawn(name: str, width: int, height: int) -> Image.Image:
    """Return a figure of the gallery that fits into so many pixels."""
    matplotlib.use("agg")
    figure = draw(name)["figure"]
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=200, bbox_inches="tight")
    picture = Image.open(buffer).convert("RGB")
    picture.thumbnail((width, height), Image.Resampling.LANCZOS)
    return picture


if __name__ == "__main__":
    main()
