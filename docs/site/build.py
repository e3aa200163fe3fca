#!/usr/bin/env python3
"""build.py ROOT OUT: builds the site in OUT from README, docs/ and the headers. Warnings are
errors.
"""

import pathlib
import shutil
import subprocess
import sys

from sphinx.cmd.build import main as sphinx

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import navigation
import pages
import reference
import sections
import topics


def main():
    root, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    work = out.with_name(out.name + "-work")
    for folder in (out, work):
        shutil.rmtree(folder, ignore_errors=True)
    entries, writer = reference.load(root, work / "doxygen")
    stage = pages.Stage(root, work / "pages")
    names = {path.stem for path in (root / "docs").glob("*.md")}
    sources = sections.write(root, entries, writer, stage.out / "reference")
    stage.write_pages(navigation.toctrees(names))
    stage.write_sources(sources)
    contents = navigation.toctree("", [f"{topic.title} <{topic.page}>" for topic in topics.TOPICS])
    with (stage.out / "reference/index.md").open("a") as index:
        index.write(f"\n{contents}\n")
    site = pathlib.Path(__file__).parent
    failed = sphinx(["-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-c", str(site), "-d",
                     str(work / "doctrees"), str(stage.out), str(out)])
    if failed:
        sys.exit("the site has warnings")
    try_search(out, "AdamW", "reference/optimizer.html#api-adamw")
    print(f"{out}/index.html")


def try_search(out, query, expected):
    """Searches the built site in a browser without a network, where there is one."""
    names = "chromium", "chromium-browser", "google-chrome"
    browser = next(filter(None, map(shutil.which, names)), None)
    if not browser:
        return print("the search was not tried: there is no chromium")
    found = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000",
         "--dump-dom", f"{out.as_uri()}/search.html?q={query}"],
        text=True, capture_output=True, timeout=120).stdout
    if expected not in found:
        sys.exit(f"a search for {query} does not find {expected}")


if __name__ == "__main__":
    main()
