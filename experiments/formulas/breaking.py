"""Line breaks in formulas.

Lines are broken before relations and signs, and if necessary within the parentheses of a long term.
"""

import re
from collections.abc import Callable, Iterator

DELIMITER = r"\s*(?:\\[a-zA-Z]+|\\?\S)"
TOKEN = re.compile(
    rf"\\[bB]igg?[lr]{DELIMITER}|\\(?P<grows>left|right){DELIMITER}|\\text\{{[^}}]*\}}|\\[a-zA-Z]+|\\.|:=|\S"
)
OPENS = ("{", "(", "[", r"\{", r"\lvert", r"\lVert")
CLOSES = ("}", ")", "]", r"\}", r"\rvert", r"\rVert")
RELATIONS = ("=", ":=", "<", ">", r"\le", r"\ge", r"\approx", r"\to")
SPACES = (r"\quad", r"\qquad")
# a + or - after one of these is the sign of a term, and does not join two terms
NO_TERM = (*RELATIONS, *SPACES, "+", "-", r"\cdot", ",", "^", "_")
SIGNS = ("+", "-")
FRACTION = re.compile(r"(?P<sign>(?:\\[lg]e |= )?(?:[+-] )?)\\frac\{")
WORDS = re.compile(r"(?P<sign>\\[lg]e |= )?\\text\{(?P<words>[^}]+)\}")


def pieces(row: str, width: Callable[[str], float], room: float) -> list[str]:
    """LaTeX cut into pieces that together show the same formula.

    Each piece is at most as wide as `room`, if possible.
    """
    row = row.strip()
    if width(row) <= room or r"\begin" in row:
        return [row]
    if row.startswith("{"):  # without these braces a left side that is too wide can be broken
        end = _end(row, 1)
        row = row[1 : end - 1] + row[end:]
    return [narrow for piece in _parts(row) for narrow in _narrowed(piece, width, room)]


def _tokens(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Each token, with the number of braces, brackets and bars around it.

    A brace itself is not within its own pair.
    """
    depth, bars = 0, list[int]()
    for token in TOKEN.finditer(text):
        sign = token[0]
        is_bar = sign in ("|", r"\|")
        closes = token["grows"] == "right" or sign in CLOSES or (is_bar and depth in bars)
        if closes:
            depth -= 1
            bars = [level for level in bars if level <= depth]
        yield token, depth
        if not closes and (token["grows"] == "left" or sign in OPENS or is_bar):
            depth += 1
            bars += [depth] if is_bar else []


def _parts(text: str) -> list[str]:
    """The parts of a text that is cut before relations, before signs between terms, and before words.

    Nothing is cut within braces, brackets or bars.
    """
    cuts, before = [0], ""
    for token, depth in _tokens(text):
        binary = token[0] in SIGNS and before and before not in NO_TERM
        begins = token[0] in RELATIONS or token[0] in SPACES or token[0].startswith(r"\text{ ")
        if depth == 0 and token.start() and (begins or binary):
            cuts.append(token.start())
        if depth == 0:
            before = "script" if before in ("^", "_") else token[0]
    return [text[begin:end].strip() for begin, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _narrowed(piece: str, width: Callable[[str], float], room: float) -> list[str]:
    """The parts of a piece that is too wide, cut between words, within its widest parentheses or between factors."""
    if width(piece) <= room:
        return [piece]
    if words := WORDS.fullmatch(piece):
        texts = [rf"\text{{{word} }}" for word in words["words"].split()]
        return [(words["sign"] or "") + texts[0], *texts[1:]]
    text = _out_of_the_fraction(piece, width, room)
    groups = [group for group in _groups(text) if len(_parts(text[group[1] : group[2]])) > 1]
    widest = max(groups, key=lambda group: width(text[group[1] : group[2]]), default=None)
    if widest is None or width(text[widest[1] : widest[2]]) < room / 2:
        parts = _factors(text)
        if len(parts) > 1 or widest is None:
            return parts
    start, begin, end, stop = widest
    size = "Big" if r"\frac" in text[begin:end] else "big"
    parts = _parts(text[begin:end])
    parts[0] = rf"{text[:start]}\{size}l( {parts[0]}"
    parts[-1] = rf"{parts[-1]} \{size}r){text[stop:]}"
    return [narrow for part in parts for narrow in _narrowed(part, width, room)]


def _factors(text: str) -> list[str]:
    """The parts of a product that is cut after its outermost parentheses and their powers."""
    cuts, behind, script = [0], False, False
    for token, depth in _tokens(text):
        if depth:
            continue
        if token[0] in ("^", "_"):
            script = behind
        elif token[0] in (")", "]") or token[0].startswith((r"\right", r"\bigr", r"\Bigr")):
            behind, script = True, False
        elif script or (token[0] in CLOSES):  # a power, which is in braces or has one sign
            script = token[0] == "{"
        else:
            cuts += [token.start()] if behind and token[0] not in (",", "/") else []
            behind = False
    return [text[begin:end].strip() for begin, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _groups(text: str) -> Iterator[tuple[int, int, int, int]]:
    r"""Four positions for each outermost \left( ... \right) without a power.

    They are its beginning, the beginning and the end of its content, and its end.
    """
    opened = None
    for token, depth in _tokens(text):
        if depth == 0 and token[0] == r"\left(":
            opened = token
        elif depth == 0 and token[0] == r"\right)" and opened:
            if text[token.end() :].lstrip()[:1] not in ("^", "_"):
                yield opened.start(), opened.end(), token.start(), token.end()
            opened = None


def _out_of_the_fraction(piece: str, width: Callable[[str], float], room: float) -> str:
    """A fraction with a wide sum in its numerator, written with this sum beside it; any other text unchanged."""
    if not (begun := FRACTION.match(piece)):
        return piece
    middle = _end(piece, begun.end())
    if piece[middle : middle + 1] != "{":
        return piece
    above, end = piece[begun.end() : middle - 1], _end(piece, middle + 1)
    if width(piece[:end]) <= room:
        return piece
    below, rest = piece[middle + 1 : end - 1], piece[end:]
    if len(_parts(above)) > 1:
        above, moved = "1", rf"\left({above}\right)"
    elif groups := [group for group in _groups(above) if len(_parts(above[group[1] : group[2]])) > 1]:
        above, moved = above[: groups[0][0]].strip() or "1", above[groups[0][0] :]
    else:
        return piece
    return rf"{begun['sign']}\frac{{{above}}}{{{below}}} {moved}{rest}"


def _end(text: str, at: int) -> int:
    """The position after the closing brace of the group whose content begins at this position."""
    return next(token.end() + at for token, depth in _tokens("{" + text[at:]) if token[0] == "}" and depth == 0) - 1
