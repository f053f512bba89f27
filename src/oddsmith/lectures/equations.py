r"""Equations of the syllabus as text for a terminal: the part of LaTeX that the page uses, in Unicode.

>>> print(as_text(r"w = \Sigma^{-1} (\mu_1 - \mu_0), \qquad \nabla E = \sum_n (y_n - t_n)\, \phi_n"))
w = Σ⁻¹(μ₁ − μ₀)
∇E = ∑ₙ (yₙ − tₙ) φₙ
>>> print(as_text(r"\gamma = \frac{\mu_0^2 - \mu_1^2}{2 \sigma^2} + \ln \frac{\pi_1}{\pi_0}"))
γ = (μ₀² − μ₁²)/(2σ²) + ln (π₁/π₀)
"""

from __future__ import annotations

import re

from oddsmith.errors import InvalidInputError

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_GREEK = "alpha beta gamma delta eta kappa lambda mu pi sigma phi psi Gamma Delta Sigma Phi Lambda".split()
_SYMBOLS = {
    **dict(zip(_GREEK, "αβγδηκλμπσφψΓΔΣΦΛ", strict=True)),
    **{"sum": "∑", "prod": "∏", "int": "∫", "partial": "∂", "nabla": "∇", "infty": "∞", "top": "ᵀ", "dagger": "†"},
    **{"cdot": "·", "times": "×", "approx": "≈", "propto": "∝", "sim": "∼", "le": "≤", "ge": "≥", "ne": "≠"},
    **{"to": "→", "leftarrow": "←", "in": "∈", "mid": "|", "ldots": "…", "ell": "ℓ", "star": "*", "pm": "±"},
    **{"lVert": "‖", "rVert": "‖", "{": "{", "}": "}", "\\": "\n", "quad": "   ", "qquad": "\n", ",": " ", ";": " "},
    **{"left": "", "right": "", "bigl": "", "bigr": "", "'": "′"},
}
_WORDS = ("exp", "log", "ln", "max", "min", "arg", "det", "arctan")
_LARGE = (*_WORDS, "∑", "∏", "∫")  # What takes a space before that which it is applied to, after its limits.
_FONTS = ("mathrm", "mathcal", "operatorname")
_OVER = {"tilde": "\u0303", "bar": "\u0304"}
_RELATIONS = "=≈∝∼≤≥≠→←∈<>|"
_UP = dict(zip("0123456789+−=()niᵀ†*", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵀ†*", strict=True))
_DOWN = dict(zip("0123456789+−=()aeijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
_SMALL = re.escape("".join({*_UP.values(), *_DOWN.values(), *_OVER.values()}))
_ONE = re.compile(
    rf"(?:\d+|[d∂]?[^\W\d_]|[^\W\d_]+′* ?\([^()]*\)|‖[^‖]*‖|√?\([^()]*\))[{_SMALL}]*(?:_\w|\^\([^()]*\))?"
)
"""What needs no brackets in a fraction: a number, a letter, a function's value, a norm, each with its scripts."""
_FRACTION = re.compile("\x01([^\x01\x02]*)\x02")  # the two signs mark where a fraction begins and ends


def as_text(latex: str) -> str:
    """Return an equation as lines of text; ``&`` aligns them, and a command that is not known is refused."""
    text = _Reader(latex).group().replace("′′", "″")
    while found := _FRACTION.search(text):
        before, after = text[: found.start()], text[found.end() :]
        text = before + _placed(before, found[1], after) + after
    rows = [[cell.strip(" ,") for cell in line.split("&")] for line in text.split("\n") if line.strip()]
    width = max((len(row[0]) for row in rows if len(row) > 1), default=0)
    return "\n".join(f"{row[0]:>{width}} {row[1]}" if len(row) > 1 else row[0] for row in rows)


class _Reader:
    """Reads tokens from left to right; every method returns the text of what it has read."""

    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.tokens = _TOKEN.findall(latex)[::-1]  # the next one is at the end

    def group(self, end: str = "") -> str:
        """Return the text up to a closing brace, or to the end of the equation."""
        text, apart = "", False
        while self.tokens:
            token = self.tokens.pop()
            if token == end:
                return text
            if token.isspace():
                continue
            if token in "^_":
                script = self.script(token)
                text, apart = text + script, apart or script[0] in "^_"
                continue
            more = self.one(token)
            spaced = apart and more and (more[0].isalnum() or more[0] in "(∑\x01")
            text, apart = _joined(text, f" {more}" if spaced else more), more in _LARGE
        if end:
            raise InvalidInputError(f"The equation {self.latex!r} has a brace that is not closed.")
        return text

    def argument(self) -> str:
        """Return the text of the next token, or of the next group in braces."""
        while self.tokens and self.tokens[-1].isspace():
            self.tokens.pop()
        if not self.tokens:
            raise InvalidInputError(f"The equation {self.latex!r} ends where an argument is expected.")
        return self.one(self.tokens.pop()).strip()

    def words(self) -> str:
        """Return the text in the braces that follow, with its spaces."""
        found = re.match(r"\{([^{}]*)\}", "".join(reversed(self.tokens)))
        if found is None:
            raise InvalidInputError(f"The equation {self.latex!r} has \\text without words in braces.")
        del self.tokens[-len(_TOKEN.findall(found[0])) :]
        return found[1]

    def script(self, sign: str) -> str:
        """Return the next argument raised or lowered, where Unicode has the letters."""
        text = self.argument()
        small, close = (_UP if sign == "^" else _DOWN), text.replace(" ", "")
        if all(letter in small for letter in close):
            return "".join(small[letter] for letter in close)
        return f"{sign}{text}" if len(text) == 1 else f"{sign}({text})"

    def one(self, token: str) -> str:
        """Return the text of a token, with its arguments."""
        if token == "{":
            return self.group("}")
        if not token.startswith("\\"):
            return {"-": "−", ",": ", ", "'": "′"}.get(token, token)
        name = token[1:]
        if name in ("begin", "end"):
            self.argument()
            return ""
        if name == "text":
            return self.words()
        if name in _FONTS or name in _OVER:
            return self.argument() + _OVER.get(name, "")
        if name == "frac":
            above, below = self.argument(), self.argument()
            return "½" if (above, below) == ("1", "2") else f"\x01{_closed(above)}/{_closed(below)}\x02"
        if name == "binom":
            return f"C({self.argument()}, {self.argument()})"
        if name == "sqrt":
            return f"√{_closed(self.argument())}"
        if name not in _SYMBOLS and name not in _WORDS:
            raise InvalidInputError(f"The equation {self.latex!r} has the command \\{name}, which is not known here.")
        return _SYMBOLS.get(name, name)


def _joined(text: str, more: str) -> str:
    """Return two texts together, with the spaces that signs and words want around them."""
    before = text.rstrip(" ")
    if more and more in _RELATIONS:
        return f"{before} {more} "
    if more and more in "+−±":
        is_sign = not before or before[-1] in "([{,&\n" + _RELATIONS  # as in −1, not as in a − 1
        return text + more if is_sign else f"{before} {more} "
    if more in _WORDS and before and text[-1] not in " ([{−√":
        return f"{text} {more}"
    return before + more if more.isspace() else text + more


def _closed(text: str) -> str:
    """Return a part of a fraction or root, in brackets unless it is one thing."""
    return text if _ONE.fullmatch(text) else f"({text})"


def _placed(before: str, fraction: str, after: str) -> str:
    """Return a fraction, in brackets where something stands next to it that it would be read together with."""
    alone = not before.strip() or before.rstrip(" ")[-1] in "([{,&\n+−±:" + _RELATIONS
    ends = not after.strip() or after.startswith("   ") or after.lstrip(" ")[0] in ")]},&\n+−±" + _RELATIONS
    return fraction if alone and ends else f"({fraction})" if after[:1] in ("", " ", ")", ",") else f"({fraction}) "
