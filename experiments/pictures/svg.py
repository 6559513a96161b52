"""The size of SVG pictures on pages, and their colours on light and dark pages."""

import re

DARK = {  # colours that are replaced on dark pages; every other colour is visible on light and on dark pages
    "#000000": "#e8e8e8",
    "#ffffff": "#16181c",
    "#222222": "#cfd3d8",
    "#b0b0b0": "#5c6068",
    "#0072b2": "#4db2ec",
    "#8b3a8b": "#d68fd6",
    "#009e73": "#2fc79b",
    "#c00000": "#ff7066",
    "#d55e00": "#ff8a3d",
}
SIZE = re.compile(rb'<svg [^>]*?width="([\d.]+)pt" height="([\d.]+)pt"')
COLOR = re.compile("#[0-9a-f]{6}")


def themed(svg: bytes) -> bytes:
    """The SVG with colours that follow the reader's choice of a light or dark page, as the page around it does.

    Args:
        svg: the picture as matplotlib writes it, with colours such as #000000 in styles.
    """
    head, rest = re.match(rb"(.*?<svg [^>]*>)(.*)", svg, re.DOTALL).groups()  # type: ignore[union-attr]
    text = COLOR.sub(lambda match: f"var({_name(match[0])})" if match[0] in DARK else match[0], rest.decode())
    light = "".join(f"{_name(color)}:{color};" for color in DARK)
    dark = "".join(f"{_name(color)}:{shade};" for color, shade in DARK.items())
    style = f"svg{{{light}fill:var({_name('#000000')})}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
    return head + f"<style>{style}</style>".encode() + text.encode()


def pixels(svg: bytes) -> tuple[int, int]:
    """The size of an SVG, which a page reserves before the picture is loaded.

    Args:
        svg: the picture as matplotlib writes it.

    Returns: the width, then the height, in pixels of CSS.
    """
    wide, high = SIZE.search(svg).groups()  # type: ignore[union-attr]
    return round(float(wide) * 4 / 3), round(float(high) * 4 / 3)


def _name(color: str) -> str:
    return f"--{color[1:]}"
