#!/usr/bin/env python3
"""Draws the charts of the documentation from their data; knows SVG and the kinds of data.

    tools/charts.py            draws docs/NAME.svg from docs/NAME.json, for each chart
    tools/charts.py --check    exit code 1 and one line per chart that differs from its data

The pictures have their own background and follow the reader's light or dark theme.
"""

import argparse
import html
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WIDTH, LEFT, RIGHT = 860, 70, 200
LINE = 15  # height of a label
COLOURS = (("#1b1f24", "#e6e9ee"), ("#0b6e4f", "#4fc79a"), ("#b5452b", "#f08a70"), ("#5b4bb5", "#a99cf5"),
           ("#8a6100", "#e0b04d"), ("#1f6fb2", "#79b8f2"), ("#a03a7a", "#e58ac2"))  # light, dark
STYLE = """<style>
text{fill:#1b1f24}.card{fill:#fff;stroke:#d7dce2}.faint{fill:#5d6773}.grid{stroke:#e3e7ec}.band{fill:#1b1f24;opacity:.08}
%s@media (prefers-color-scheme:dark){text{fill:#d6dae0}.card{fill:#15181d;stroke:#2c323a}.faint{fill:#98a2af}
.grid{stroke:#2c323a}.band{fill:#d6dae0;opacity:.12}
%s}</style>"""


def style(index):
    return "".join(f".c{k}{{fill:{c[index]}}}.l{k}{{stroke:{c[index]};fill:none}}\n" for k, c in enumerate(COLOURS))


def text(x, y, words, anchor="start", classes="", size=None):
    size = f' font-size="{size}"' if size else ""
    classes = f' class="{classes}"' if classes else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{classes}{size}>{html.escape(words)}</text>'


def document(height, title, notes, body):
    head = [text(16, 26, title, size=16)] + [text(16, 46 + 16 * k, note, classes="faint") for k, note in enumerate(notes)]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
                      'font-family="system-ui,sans-serif" font-size="12">', STYLE % (style(0), style(1)),
                      f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="6"/>',
                      *head, *body, "</svg>"]) + "\n"


def apart(wanted, low, high):
    """The heights nearest to the wanted ones that are a line apart, in the same order, within [low, high]."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    placed = list(wanted)
    for _ in range(200):
        for a, b in zip(order, order[1:]):
            gap = LINE - (placed[b] - placed[a])
            if gap > 0:
                placed[a] -= gap / 2
                placed[b] += gap / 2
        for k in order:
            placed[k] = min(max(placed[k], low), high)
    return placed


class Axes:
    """A frame with a linear or logarithmic scale on each axis."""

    def __init__(self, top, height, x, y, x_title, y_title, log_x=False, log_y=False):
        self.top, self.height, self.log = top, height, (log_x, log_y)
        self.x, self.y = x, y
        self.titles = x_title, y_title

    def share(self, axis, value):
        low, high = (self.x, self.y)[axis]
        if self.log[axis]:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)

    def at(self, x, y):
        return LEFT + (WIDTH - LEFT - RIGHT) * self.share(0, x), self.top + self.height * (1 - self.share(1, y))

    def draw(self, x_ticks, y_ticks):
        bottom, right = self.top + self.height, WIDTH - RIGHT
        out = []
        for value in y_ticks:
            y = self.at(self.x[0], value)[1]
            out += [f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>', text(LEFT - 8, y + 4, f"{value:g}", "end", "faint")]
        for value in x_ticks:
            x = self.at(value, self.y[0])[0]
            out += [f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{bottom}"/>', text(x, bottom + 16, f"{value:g}", "middle", "faint")]
        out += [text((LEFT + right) / 2, bottom + 34, self.titles[0], "middle"), text(LEFT - 8, self.top - 10, self.titles[1])]
        return out


NAMES = {"fused": "torch fused=True", "foreach": "torch foreach=True", "compile": "torch.compile", "native": "stepfuse, Python",
         "deferred": "stepfuse, Python, deferred", "optax": "optax, jax.jit"}


def ratios(rows, title, notes):
    """A dot per contestant on a logarithmic axis. A row is a heading and (name, ratio to stepfuse's time, colour) of its rivals."""
    most = max(ratio for _, rivals in rows for _, ratio, _ in rivals)
    axes = Axes(84, len(rows) * 74, (0.8, 10 ** math.ceil(math.log10(most))), (0, len(rows)), "times as long as stepfuse's step", "", log_x=True)
    body = axes.draw([t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if t <= axes.x[1]], [])
    for k, (heading, rivals) in enumerate(rows):
        y = axes.top + 74 * k + 30
        one = axes.at(1, 0)[0]
        body += [text(LEFT + 4, y - 14, heading), f'<circle class="c1" cx="{one:.1f}" cy="{y + 8:.1f}" r="5"/>']
        placed = apart([y + 8 + 0.01 * i for i in range(len(rivals))], y - 4, y + 34)
        for (name, ratio, colour), label in zip(sorted(rivals, key=lambda rival: rival[1]), placed):
            x = axes.at(ratio, 0)[0]
            body += [f'<line class="l{colour}" x1="{one + 6:.1f}" x2="{x:.1f}" y1="{label:.1f}" y2="{label:.1f}" stroke-opacity=".5"/>',
                     f'<circle class="c{colour}" cx="{x:.1f}" cy="{label:.1f}" r="4"/>', text(x + 9, label + 4, f"{name} {ratio:.3g}×")]
    return document(axes.top + axes.height + 52, title, notes, body)


def compare_torch(data):
    """Compares the whole step with PyTorch's, a row for each layout."""
    names = sorted({n for r in data["results"] for n in r["rows"] if n != "stepfuse"}, key=list(NAMES).index)
    rows = []
    for r in data["results"]:
        size = f"{r['parameters'] / 1e6:,.1f} M parameters in {r['tensors']:,} tensors"
        rivals = [(NAMES[n], v["ratio"], 2 + names.index(n) % (len(COLOURS) - 2)) for n, v in r["rows"].items() if n != "stepfuse"]
        rows.append((f"{r['layout']}: {size}; stepfuse takes {r['rows']['stepfuse']['median_s'] * 1e3:.3g} ms", rivals))
    return ratios(rows, "Time of the whole optimizer step",
                  ["Unscale, finite check, clip by norm, AdamW and the update of the loss scale. Farther right is slower.", data["machine"] + "."])


def host_time(data):
    """Compares the host's time of step() with torch's, a row for each kind of work."""
    rows = [(f"{r['parameters']:,} parameters, {r['work']}; stepfuse takes {r['stepfuse_ms']:.3g} ms",
             [(NAMES["fused"], r["ratio"], 2)]) for r in data["rows"]]
    return ratios(rows, "Host time of a step with many small parameters", ["Each parameter has 4 elements. Farther right is slower.", data["machine"] + "."])


def fused_unfused(data):
    """Compares stepfuse's two extreme forms, a row for each size."""
    rows = [(f"{r['parameters'] / 1e6:g} M parameters; one fused kernel takes {r['fused_ms']:.3g} ms",
             [("one kernel per operation", r["ratio"], 2)]) for r in data["rows"]]
    return ratios(rows, "One fused kernel and one kernel per operation",
                  ["AdamW with loss scaling and clipping, f32. Farther right is slower.", data["machine"] + "."])


def dots(axes, rows, value, band):
    """A labelled dot for each row, and the range of the reference over seeds as a band."""
    top, bottom = axes.at(axes.x[0], band[1])[1], axes.at(axes.x[0], band[0])[1]
    out = [f'<rect class="band" x="{LEFT}" width="{WIDTH - LEFT - RIGHT}" y="{top:.1f}" height="{max(1, bottom - top):.1f}"/>']
    points = [axes.at(*value(r)) for r in rows]
    placed = apart([y for _, y in points], axes.top, axes.top + axes.height)
    for k, ((x, y), label, r) in enumerate(zip(points, placed, rows)):
        colour = k % len(COLOURS)
        end = WIDTH - RIGHT + 14
        out += [f'<polyline class="l{colour}" stroke-opacity=".45" points="{x:.1f},{y:.1f} {end - 16:.1f},{label:.1f} {end - 4:.1f},{label:.1f}"/>',
                f'<circle class="c{colour}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>', text(end, label + 4, r["name"])]
    return out


def moments(data):
    """Bytes of weights and state against the final loss, a panel for each task."""
    body, top = [], 90
    for task in data["tasks"]:
        losses = [r["loss"] for r in task["rows"]] + task["f32"]
        most, step = max(r["bytes"] for r in task["rows"]), task["tick"]
        low, high = math.floor(min(losses) / step) * step, math.ceil(max(losses) / step) * step
        axes = Axes(top + 26, 290, (0, math.ceil(most / 2) * 2), (low, high), "bytes of weights and state per parameter",
                    f"{task['title']}; grey: f32 over seeds {data['seeds']}")
        body += axes.draw(range(0, int(axes.x[1]) + 1, 2), [low + step * k for k in range(round((high - low) / step) + 1)])
        body += dots(axes, task["rows"], lambda r: (r["bytes"], r["loss"]), task["f32"])
        top += 26 + 290 + 62
    return document(top - 4, "Low-precision weights and moments: memory against final loss", ["Farther left needs less memory. Lower is better.", data["run"] + "."], body)


def weight_rounding(data):
    """Training losses over epochs, a line for each way."""
    runs = data["runs"]
    values = [x for r in runs for x in r["losses"]]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    count = len(runs[0]["losses"])
    axes = Axes(98, 300, (1, count), (10**low, 10**high), "epoch", "training loss", log_y=True)
    body = axes.draw([1, *range(25, count + 1, 25)], [10.0**p for p in range(low, high + 1)])
    ends = [axes.at(count, r["losses"][-1])[1] for r in runs]
    for k, (r, label) in enumerate(zip(runs, apart(ends, axes.top, axes.top + axes.height))):
        points = " ".join("{:.1f},{:.1f}".format(*axes.at(e + 1, x)) for e, x in enumerate(r["losses"]))
        body += [f'<polyline class="l{k}" stroke-width="1.6" points="{points}"/>',
                 f'<line class="l{k}" x1="{WIDTH - RIGHT}" y1="{ends[k]:.1f}" x2="{WIDTH - RIGHT + 10}" y2="{label:.1f}"/>',
                 text(WIDTH - RIGHT + 14, label + 4, f"{r['name']}, {r['bytes']:g} bytes", classes=f"c{k}")]
    return document(axes.top + axes.height + 52, "Training loss with weights in f32 and, four ways, in bf16",
                    ["Bytes are those of weights and state per parameter.", data["run"] + "."], body)


def low_bit_products(data):
    """Training losses over steps, averaged over ten, a line for each kind of product."""
    runs = [{**r, "losses": [sum(r["losses"][k:k + 10]) / 10 for k in range(0, len(r["losses"]) - 9, 10)]} for r in data["runs"]]
    values = [x for r in runs for x in r["losses"]]
    low, high = math.floor(min(values)), math.ceil(max(values))
    count = 10 * len(runs[0]["losses"])
    axes = Axes(98, 300, (0, count), (low, high), "step", "training loss")
    body = axes.draw(range(0, count + 1, 100), range(low, high + 1))
    ends = [axes.at(count, r["losses"][-1])[1] for r in runs]
    for k, (r, label) in enumerate(zip(runs, apart(ends, axes.top, axes.top + axes.height))):
        points = " ".join("{:.1f},{:.1f}".format(*axes.at(10 * e + 10, x)) for e, x in enumerate(r["losses"]))
        body += [f'<polyline class="l{k}" stroke-width="1.6" points="{points}"/>',
                 f'<line class="l{k}" x1="{WIDTH - RIGHT}" y1="{ends[k]:.1f}" x2="{WIDTH - RIGHT + 10}" y2="{label:.1f}"/>',
                 text(WIDTH - RIGHT + 14, label + 4, f"{r['name']}, {r['losses'][-1]:.2f}", classes=f"c{k}")]
    return document(axes.top + axes.height + 52, "Training loss with matrix products in bf16, MXFP8 and NVFP4",
                    ["Means of ten steps.", data["run"] + "."], body)


CHARTS = {"compare_torch": compare_torch, "compare_torch_h100": compare_torch, "host_time": host_time, "fused_unfused": fused_unfused, "moments": moments,
          "weight_rounding": weight_rounding, "low_bit_products": low_bit_products}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare the pictures with their data")
    check = parser.parse_args().check
    stale = False
    for name, draw in CHARTS.items():
        data = json.loads((ROOT / "docs" / f"{name}.json").read_text(encoding="utf-8"))
        picture, svg = ROOT / "docs" / f"{name}.svg", draw(data)
        if not check:
            picture.write_text(svg, encoding="utf-8")
        elif picture.read_text(encoding="utf-8") != svg:
            stale = True
            print(f"docs/{name}.svg differs from docs/{name}.json: run tools/charts.py")
    sys.exit(stale)


if __name__ == "__main__":
    main()
