#!/usr/bin/env python3
"""build.py ROOT OUT: builds the site in OUT from README, docs/ and the headers. Warnings are errors."""

import pathlib
import shutil
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
    print(f"{out}/index.html" if not failed else "the site has warnings")
    sys.exit(failed)


if __name__ == "__main__":
    main()
