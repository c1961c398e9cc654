"""Small parts of drawings: each is one self-contained SVG element, with texts escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

COLOURS = (
    "#4361a8",
    "#b3541e",
    "#2f7d4f",
    "#8a3a86",
    "#8a7a1c",
    "#2a8a95",
    "#777777",
    "#c23b5a",
    "#5b4a2f",
    "#6aa329",
)
"""Colours of series, in order; they repeat."""


def colour_of(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """A whole drawing on white."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        'font-family="sans-serif" font-size="12">'
    )
    ground = f'<rect width="{width:g}" height="{height:g}" fill="white"/>'
    return "\n".join([head, ground, *parts, "</svg>\n"])


def text(
    x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#222", size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}">{escape(words)}</text>'
    )


def path(steps: str, colour: str, *, dashes: str | None = None, width: float = 1) -> str:
    """A line along SVG path `steps`, such as `M0 0H10V5`."""
    extra = f' stroke-dasharray="{dashes}"' if dashes else ""
    thick = f' stroke-width="{width:g}"' if width != 1 else ""
    return f'<path d="{steps}" fill="none" stroke="{colour}"{thick}{extra}/>'


def line(points: Sequence[tuple[float, float]], colour: str, *, dashes: str | None = None) -> str:
    """A line through points."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    extra = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"{extra}/>'


def dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" '
        f'height="{max(0.0, height):.1f}" fill="{colour}"/>'
    )
