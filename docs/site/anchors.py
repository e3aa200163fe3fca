"""The anchors of a page's headings, as GitHub and MyST make them."""

import re

FENCED = re.compile(r"^ *```.*?^ *```$", re.M | re.S)


def slug(heading):
    """The anchor of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(page):
    """Those of all headings of a page's text; one that stands there already has a number."""
    seen = {}
    for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", page), re.M):
        at = slug(heading)
        seen[at] = seen.get(at, -1) + 1
        yield f"{at}-{seen[at]}" if seen[at] else at
