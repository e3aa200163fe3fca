"""Diagrams in Mermaid's notation, which GitHub draws, as SVG by Graphviz: a site without scripts of
others draws them, too. Reads flowcharts and state diagrams as far as docs/ has them."""

import html
import re
import subprocess

BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.M | re.S)
NODE = re.compile(r'(\w+)(?:\["([^"]*)"\])?')
STYLE = """digraph {
  bgcolor=transparent; ranksep=0.4; nodesep=0.3;
  node [shape=box style=rounded fontname="sans-serif" fontsize=11 margin="0.15,0.08"
        color="#888888"];
  edge [fontname="sans-serif" fontsize=10 color="#888888" arrowsize=0.7];
"""


def quoted(label, width):
    """A label of Graphviz, whose long lines are broken at spaces."""
    lines = []
    for line in html.unescape(re.sub(r"<br/?>", "\n", label)).split("\n"):
        while len(line) > width and (at := line.rfind(" ", 0, width)) > 0:
            lines.append(line[:at])
            line = line[at + 1:]
        lines.append(line)
    return '"' + "\\n".join(lines).replace('"', '\\"') + '"'


def flowchart(lines):
    for line in lines:
        parts = re.split(r"\s*-->\s*(?:\|([^|]*)\|)?\s*", line.strip())
        nodes, labels = [NODE.fullmatch(part) for part in parts[::2]], parts[1::2]
        for node in nodes:
            if node[2] is not None:
                yield f"{node[1]} [label={quoted(node[2], 44)}];"
        for start, end, label in zip(nodes, nodes[1:], labels):
            yield f"{start[1]} -> {end[1]} [label={quoted(label or '', 30)}];"


def states(lines):
    ends = 0
    for line in lines:
        line = line.strip()
        if named := re.fullmatch(r'state "([^"]*)" as (\w+)', line):
            yield f"{named[2]} [label={quoted(named[1], 34)}];"
            continue
        start, end, label = re.fullmatch(r"(\S+) --> ([^\s:]+)(?:: (.*))?", line).groups()
        for at in (start, end):
            if at == "[*]":
                yield f'end{at is end}{ends} [label="" shape=point];'
        name = [f"end{at is end}{ends}" if at == "[*]" else at for at in (start, end)]
        yield f"{name[0]} -> {name[1]} [label={quoted(label or '', 30)}];"
        ends += 1


def drawn(block):
    first, *lines = [line for line in block[1].splitlines() if line.strip()]
    read = {"flowchart TD": flowchart, "stateDiagram-v2": states}[first.strip()]
    dot = STYLE + "\n".join(read(lines)) + "\n}\n"
    svg = subprocess.run(["dot", "-Tsvg"], input=dot, text=True, capture_output=True,
                         check=True).stdout
    svg = svg[svg.index("<svg"):].replace("\n", " ")
    return f'```{{raw}} html\n<div class="diagram">{svg}</div>\n```'


def replaced(text):
    """The text of a page with its diagrams drawn."""
    return BLOCK.sub(drawn, text)
