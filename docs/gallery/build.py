"""Make the figures of the gallery, their contact sheet and the page that shows them.

python docs/gallery/build.py              all of them, into docs/gallery/figures/
python docs/gallery/build.py zigzag roc   these figures alone
"""

import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from PIL import Image

from oddsmith.lectures.gallery import draw, save, scripts
from oddsmith.lectures.sheet import contact_sheet, gallery_page, smaller

HERE = Path(__file__).parent
FIGURES = HERE / "figures"


def main(wanted: list[str]) -> None:
    """Make the figures named, or all of them with the contact sheet and the page."""
    matplotlib.use("agg")
    FIGURES.mkdir(exist_ok=True)
    for name in wanted or scripts():
        path = FIGURES / f"{name}.png"
        save(draw(name)["figure"], path, dpi=120)
        plt.close("all")
        with Image.open(path) as picture:
            smaller(picture.convert("RGB")).save(path, optimize=True)
        print(f"{name}: {path.stat().st_size / 1000:.0f} kB")
    if not wanted:
        contact_sheet({name: FIGURES / f"{name}.png" for name in scripts()}, FIGURES / "contact_sheet.png")
        (HERE / "README.md").write_text(gallery_page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
