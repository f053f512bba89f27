"""Make the figures of the gallery, their contact sheet and the page that shows them.

python docs/gallery/build.py              all of them, into docs/gallery/figures/
python docs/gallery/build.py zigzag roc   these figures alone
"""

from __future__ import annotations

import ast
import io
import os
import runpy
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURES = HERE / "figures"
SHEET = "contact_sheet.png"
SECTIONS = {
    "From activations to probabilities": ["links", "sigmoid_steepness", "other_links"],
    "Densities and Bayes' rule": ["class_densities", "covariances", "class_prior", "laplace"],
    "Decision regions": ["distance", "decision_regions", "four_classes", "expansion", "ambiguous", "fisher"],
    "Posterior maps": ["posterior_maps", "prior_width", "uncertainty"],
    "Outliers and order": ["perceptron", "outliers_least_squares", "outliers_probit", "influence"],
    "Optimisers": ["zigzag", "trace"],
    "Weights and priors": ["coefficients", "profile", "widths", "residuals"],
    "Evaluation": ["reliability", "roc", "costs", "comparison"],
}
INTRODUCTION = """# Gallery

Each figure is made by one short script with the public names of oddsmith. `make gallery` makes all of them again, a
contact sheet beside them, and this page from the first lines of the scripts. What a figure claims is also a test, in
`tests/plots/test_gallery.py`.
"""


def scripts() -> dict[str, Path]:
    """Return the scripts by the name of their figure."""
    return {path.stem.removeprefix("plot_"): path for path in sorted(HERE.glob("plot_*.py"))}


def run(name: str) -> dict[str, Any]:
    """Run a script and return what it defines; ``figure`` is its figure."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    return runpy.run_path(str(scripts()[name]))


def save(figure: Any, path: Path) -> None:
    """Write a figure as a small PNG: 256 colours are enough, and no date makes the bytes differ."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120, bbox_inches="tight", pad_inches=0.08, metadata={"Software": None})
    Image.open(buffer).convert("RGB").quantize(192, dither=Image.Dither.NONE).save(path, optimize=True)


def contact_sheet(names: list[str], columns: int = 5, width: int = 300, height: int = 250) -> None:
    """Put all figures on one page, small and with their names."""
    from PIL import Image, ImageDraw

    rows = -(-len(names) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height), "white")
    for i, name in enumerate(names):
        picture = Image.open(FIGURES / f"{name}.png").convert("RGB")
        picture.thumbnail((width - 16, height - 34), Image.Resampling.LANCZOS)
        left, top = i % columns * width, i // columns * height
        sheet.paste(picture, (left + (width - picture.width) // 2, top + 24))
        ImageDraw.Draw(sheet).text((left + 8, top + 6), name.replace("_", " "), fill="black")
    sheet.save(FIGURES / SHEET)


def page() -> str:
    """Return the page that shows the figures, in the words of the scripts."""
    parts = [INTRODUCTION]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in names:
            path = scripts()[name]
            title, _, text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")
            parts.append(f"### {title.rstrip('.')}\n\n{text.strip()}\n")
            parts.append(f"![{title.rstrip('.')}](figures/{name}.png)\n\nScript: [{path.name}]({path.name})\n")
    return "\n".join(parts)


def main(wanted: list[str]) -> None:
    """Make the figures named, or all of them and the contact sheet."""
    known = scripts()
    for name in wanted or known:
        if name not in known:
            sys.exit(f"There is no figure {name!r}. There are: {', '.join(known)}.")
        found = run(name)
        FIGURES.mkdir(exist_ok=True)
        save(found["figure"], FIGURES / f"{name}.png")
        print(f"{name}: {(FIGURES / f'{name}.png').stat().st_size / 1000:.0f} kB")

        import matplotlib.pyplot as plt

        plt.close("all")
    if not wanted:
        contact_sheet([name for names in SECTIONS.values() for name in names])
        (HERE / "README.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
