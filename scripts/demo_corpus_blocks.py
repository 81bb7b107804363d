"""The blocks of a demo page as reportlab flowables: text, tables, boxes, charts and figures.

`make_demo_corpus.py` describes the source text that these functions draw. Lengths are in points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

from reportlab.graphics.charts.barcharts import VerticalBarChart
from reportlab.graphics.charts.legends import Legend
from reportlab.graphics.charts.linecharts import HorizontalLineChart
from reportlab.graphics.charts.piecharts import Pie
from reportlab.graphics.shapes import Circle, Drawing, Line, Rect, String
from reportlab.graphics.widgets.markers import makeMarker
from reportlab.lib.colors import Color, black, white
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Paragraph, Spacer, Table, TableStyle

CHART_HEIGHT: Final = 180.0


@dataclass(frozen=True, slots=True)
class Look:
    """How one document is drawn."""

    size: tuple[float, float]
    """Width and height, points."""
    margin: float
    """Points."""
    regular: str
    bold: str
    colour: Color
    points: float
    """Size of the running text."""

    @property
    def tint(self) -> Color:
        """Give the pale version of the document's colour."""
        return Color(*(1 - (1 - part) * 0.13 for part in self.colour.rgb()))

    def style(self, scale: float = 1.0, **changes: Any) -> ParagraphStyle:
        """Give a paragraph style whose size is `scale` times that of the running text."""
        size = self.points * scale
        settings: dict[str, Any] = {
            "fontName": self.regular,
            "fontSize": size,
            "leading": size * 1.36,
            "spaceAfter": size * 0.7,
        }
        return ParagraphStyle("text", **(settings | changes))


def split_rows(lines: Sequence[str]) -> list[list[str]]:
    """Split the rows of a table or chart into cells."""
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def table_block(lines: Sequence[str], look: Look, width: float) -> list[Any]:
    """Lay out a table with a caption above it; the first column is twice as wide."""
    cell = look.style(0.9, spaceAfter=0)
    head = look.style(0.9, spaceAfter=0, fontName=look.bold, textColor=white)
    rows = split_rows(lines[1:])
    unit = width / (len(rows[0]) + 1)
    table = Table(
        [
            [Paragraph(escape(text), head if index == 0 else cell) for text in row]
            for index, row in enumerate(rows)
        ],
        colWidths=[2 * unit] + [unit] * (len(rows[0]) - 1),
        spaceAfter=look.points * 1.2,
    )
    table.setStyle(
        TableStyle(
            [
                ("BACKGROUND", (0, 0), (-1, 0), look.colour),
                ("ROWBACKGROUNDS", (0, 1), (-1, -1), [white, look.tint]),
                ("LINEBELOW", (0, -1), (-1, -1), 0.8, look.colour),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
                ("TOPPADDING", (0, 0), (-1, -1), 3),
                ("BOTTOMPADDING", (0, 0), (-1, -1), 4),
            ]
        )
    )
    return [caption(lines[0], look), table]


def caption(first_line: str, look: Look) -> Paragraph:
    """Give the caption that follows the keyword in a block's first line."""
    text = escape(first_line.split(": ", 1)[1])
    return Paragraph(text, look.style(0.88, fontName=look.bold, textColor=look.colour))


def shades(look: Look, count: int) -> list[Color]:
    """Give `count` colours from the document's own to a pale one."""
    steps = (1 - 0.72 * index / max(count - 1, 1) for index in range(count))
    return [Color(*(1 - (1 - part) * step for part in look.colour.rgb())) for step in steps]


def axis_chart_block(lines: Sequence[str], look: Look, width: float) -> list[Any]:
    """Draw a bar or line chart; row one names the value unit and the series."""
    header, *rows = split_rows(lines[1:])
    size = look.points * 0.8
    drawing = Drawing(width, CHART_HEIGHT)
    colours = shades(look, len(header) - 1)
    draw = bar_chart if lines[0].startswith("bar:") else line_chart
    chart = draw(rows, colours, look)
    chart.x, chart.y, chart.width, chart.height = 34, 38, width - 50, CHART_HEIGHT - 64
    chart.categoryAxis.categoryNames = [row[0] for row in rows]
    chart.valueAxis.valueMin = 0
    chart.valueAxis.valueMax = max(max(series) for series in chart.data) * 1.18
    for labels in (chart.categoryAxis.labels, chart.valueAxis.labels):
        labels.fontName, labels.fontSize = look.regular, size
    drawing.add(chart)
    drawing.add(String(4, CHART_HEIGHT - 12, header[0], fontName=look.regular, fontSize=size))
    if len(chart.data) > 1:
        drawing.add(legend(list(zip(colours, header[1:], strict=True)), look, width * 0.4))
    return [drawing, caption(lines[0], look)]


def value_format(rows: list[list[str]]) -> str:
    """Give the format that prints every value with the decimals of the source."""
    return f"%.{max(len(cell.partition('.')[2]) for row in rows for cell in row[1:])}f"


def series_of(rows: list[list[str]]) -> list[list[float]]:
    """Give the numbers of each series."""
    return [[float(row[index]) for row in rows] for index in range(1, len(rows[0]))]


def bar_chart(rows: list[list[str]], colours: list[Color], look: Look) -> VerticalBarChart:
    """Give grouped bars with their values above them."""
    chart = VerticalBarChart()
    chart.data, chart.barLabelFormat = series_of(rows), value_format(rows)
    labels = chart.barLabels
    labels.fontName, labels.fontSize, labels.dy = look.regular, look.points * 0.8, 6
    for index, colour in enumerate(colours):
        chart.bars[index].fillColor, chart.bars[index].strokeColor = colour, None
    return chart


def line_chart(rows: list[list[str]], colours: list[Color], look: Look) -> HorizontalLineChart:
    """Give lines with values above the first one and below the others."""
    chart = HorizontalLineChart()
    chart.data, chart.lineLabelFormat, chart.lineLabelNudge = series_of(rows), value_format(rows), 0
    labels = chart.lineLabels
    labels.fontName, labels.fontSize = look.regular, look.points * 0.8
    for index, colour in enumerate(colours):
        line = chart.lines[index]
        line.strokeColor, line.strokeWidth = colour, 1.8
        line.symbol = makeMarker("FilledCircle", size=5, fillColor=colour, strokeColor=colour)
        for point in range(len(rows)):
            labels[(index, point)].dy = -11 if index else 10
    return chart


def legend(pairs: list[tuple[Color, str]], look: Look, x: float) -> Legend:
    """Give a legend in one row at the foot of a chart, from `x` on."""
    box = Legend()
    box.x, box.y, box.boxAnchor, box.columnMaximum, box.deltax = x, 12, "nw", 1, 70
    box.fontName, box.fontSize, box.alignment = look.regular, look.points * 0.8, "right"
    box.colorNamePairs, box.dx, box.dy, box.strokeWidth = pairs, 8, 6, 0
    return box


def pie_block(lines: Sequence[str], look: Look, width: float) -> list[Any]:
    """Draw a pie chart with its labels beside the slices."""
    rows = split_rows(lines[1:])
    drawing, pie = Drawing(width, CHART_HEIGHT), Pie()
    pie.width = pie.height = CHART_HEIGHT - 50
    pie.x, pie.y = (width - pie.width) / 2, 26
    pie.data = [float(value) for _, value in rows]
    pie.labels = [f"{name} {value} %" for name, value in rows]
    pie.sideLabels, pie.startAngle = True, 60
    pie.slices.fontName, pie.slices.fontSize = look.regular, look.points * 0.85
    for index, colour in enumerate(shades(look, len(rows))):
        pie.slices[index].fillColor, pie.slices[index].strokeColor = colour, white
    drawing.add(pie)
    return [drawing, caption(lines[0], look)]


def figure_block(lines: Sequence[str], look: Look, width: float) -> list[Any]:
    """Draw a figure of `size`, `rect`, `fill`, `wire`, `dot`, `badge` and `text` lines, points."""
    figure_width, height = (float(part) for part in lines[1].split()[1:])
    drawing, left = Drawing(width, height + 8), (width - figure_width) / 2
    font = {"fontName": look.regular, "fontSize": look.points * 0.85}
    for line in lines[2:]:
        shape, _, label = (part.strip() for part in line.partition("|"))
        kind, *parts = shape.split()
        x, y, *rest = (float(part) for part in parts)
        x += left
        if kind in ("rect", "fill"):
            fill = look.tint if kind == "fill" else white
            drawing.add(Rect(x, y, *rest, fillColor=fill, strokeColor=look.colour, strokeWidth=1.1))
            x, y = x + rest[0] / 2, y + rest[1] / 2 - look.points * 0.3
        elif kind == "wire":
            drawing.add(Line(x, y, rest[0] + left, rest[1], strokeColor=look.colour, strokeWidth=2))
        elif kind in ("dot", "badge"):
            radius = 4 if kind == "dot" else 8
            fill = look.colour if kind == "badge" else white
            drawing.add(Circle(x, y, radius, fillColor=fill, strokeColor=look.colour))
            y -= look.points * 0.3 if kind == "badge" else 16
        if label:
            colour = white if kind == "badge" else black
            drawing.add(String(x, y, label, textAnchor="middle", fillColor=colour, **font))
    return [drawing, caption(lines[0], look)]


def box_block(lines: Sequence[str], look: Look, width: float) -> list[Any]:
    """Lay out a shaded box with a title."""
    title = Paragraph(
        escape(lines[0].split(": ", 1)[1]),
        look.style(fontName=look.bold, textColor=look.colour, spaceAfter=4),
    )
    text = Paragraph(escape(" ".join(lines[1:])), look.style(0.94, spaceAfter=2))
    box = Table([[[title, text]]], colWidths=[width], spaceAfter=look.points)
    box.setStyle(
        TableStyle(
            [
                ("BACKGROUND", (0, 0), (-1, -1), look.tint),
                ("LINEBEFORE", (0, 0), (0, -1), 3, look.colour),
            ]
        )
    )
    return [box]


DRAWN_BLOCKS: Final[dict[str, Callable[[Sequence[str], Look, float], list[Any]]]] = {
    "table:": table_block,
    "bar:": axis_chart_block,
    "line:": axis_chart_block,
    "pie:": pie_block,
    "figure:": figure_block,
    "box:": box_block,
}


def lay_out_block(lines: Sequence[str], look: Look, width: float) -> list[Any]:
    """Turn a block into reportlab flowables."""
    keyword, _, rest = lines[0].partition(" ")
    if keyword in DRAWN_BLOCKS:
        return DRAWN_BLOCKS[keyword](lines, look, width)
    if keyword in ("#", "##"):
        scale, colour = (1.75, look.colour) if keyword == "#" else (1.2, black)
        style = look.style(scale, fontName=look.bold, textColor=colour, spaceBefore=4)
        return [Paragraph(escape(rest), style)]
    if keyword == "-":
        style = look.style(leftIndent=14, bulletIndent=2, spaceAfter=look.points * 0.3)
        items = [Paragraph(escape(line[2:]), style, bulletText="\u2022") for line in lines]
        return [*items, Spacer(1, look.points * 0.5)]
    return [Paragraph(escape(" ".join(lines)), look.style(alignment=4))]
