"""Stages README, CHANGELOG and docs/ for Sphinx: the same text, with links that lead somewhere on
the site. What is linked and is no page, such as a source, becomes a page that shows it."""

import os
import pathlib
import re
import textwrap

import diagrams

LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".h": "cpp", ".inc": "cpp", ".py": "python", ".sh": "sh",
             ".txt": "text", ".cmake": "cmake"}
CODE = re.compile(r"^ *```.*?^ *```$|(`+)[^`\n].*?\1", re.M | re.S)
# Lines of these wrap, as those of text do.
ERROR = re.compile(r"^```\n(?=.*static assertion failed)", re.S)
TEXT = re.compile(r"^```text\n.*?(?=\n```$)", re.M | re.S)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
BLOCK = re.compile(r"(```.*?\n)(.*)(```)", re.S)
FRONT = "---\norphan: true\nnosearch: true\n---\n\n"


def shown(code):
    """A block as the site shows it: code from within a function begins at the margin."""
    code = ERROR.sub("```text\n", code)
    block = BLOCK.fullmatch(code)
    return block[1] + textwrap.dedent(block[2]) + block[3] if block else code


class Stage:
    def __init__(self, root, out):
        self.root, self.out = root, out
        self.sources = set()  # paths relative to the root that need a page of their own
        self.pages = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md"}
        names = [f"docs/{path.name}" for path in (root / "docs").glob("*.md")]
        self.pages |= {name: name for name in names}

    def write(self, path, text):
        (self.out / path).parent.mkdir(parents=True, exist_ok=True)
        (self.out / path).write_text(text)

    def place(self, path):
        """Where a file or folder of the tree is on the site."""
        if path in self.pages:
            return self.pages[path]
        self.sources.add(path)
        return f"sources/{path}/folder.md" if (self.root / path).is_dir() else f"sources/{path}.md"

    def linked(self, page, text):
        """The text of a page, with its links to files of the tree as links to pages of the site."""
        here = (self.root / page).parent

        def link(found):
            path = os.path.normpath(here / found[1])
            if not os.path.exists(path):
                raise SystemExit(f"{page}: the target of the link {found[1]} does not exist")
            target = self.place(os.path.relpath(path, self.root))
            relative = os.path.relpath(target, pathlib.Path(self.pages[page]).parent)
            # An anchor such as #L12 of a source is none of its page.
            return f"]({relative}{found[2] or '' if target in self.pages.values() else ''})"

        hidden = []
        plain = CODE.sub(
            lambda code: hidden.append(shown(code[0])) or f"\0{len(hidden) - 1}\0", text)
        plain = LINK.sub(link, plain)
        plain = re.sub(r"^( *)%", r"\1&#37;", plain, flags=re.M)  # which MyST takes for a comment
        plain = re.sub("\0(\\d+)\0", lambda at: hidden[int(at[1])], plain)
        if page == "docs/errors.md":  # whose texts are broken at 120 columns
            plain = TEXT.sub(
                lambda block: block[0].replace("\n", " ").replace("```text ", "```text\n"), plain)
        return diagrams.replaced(plain)

    def write_pages(self, navigation):
        for page, target in self.pages.items():
            text = self.linked(page, (self.root / page).read_text())
            self.write(target, text + (f"\n{navigation}\n" if target == "index.md" else ""))

    def write_sources(self, more):
        """A page for each source that is linked, those of folders and `more` included."""
        waiting, done = self.sources | set(more), set()
        while waiting:
            path = waiting.pop()
            done.add(path)
            if (self.root / path).is_dir():
                waiting |= self.write_folder(path) - done
            else:
                text = (self.root / path).read_text()
                fence = "`" * max([4, *(len(ticks) + 1 for ticks in re.findall(r"`+", text))])
                language = LANGUAGES.get(pathlib.Path(path).suffix, "text")
                self.write(f"sources/{path}.md",
                           f"{FRONT}# {path}\n\n{fence}{{code-block}} {language}\n"
                           f":linenos:\n:force:\n\n{text.rstrip()}\n{fence}\n")

    def write_folder(self, path):
        files = sorted(f for f in (self.root / path).iterdir()
                       if f.is_file() and f.suffix in LANGUAGES)
        lines = [f"- [{f.name}]({f.name}.md)" for f in files]
        self.write(f"sources/{path}/folder.md", f"{FRONT}# {path}\n\n" + "\n".join(lines) + "\n")
        return {os.path.relpath(f, self.root) for f in files}
