"""The order of the site's pages. Every page of docs/ is in it; `make docs` fails otherwise."""

GROUPS = {
    "Start": ["tutorial", "recipes", "slow", "from_pytorch", "from_lightning", "examples",
              "finetune"],
    "Policies": ["precision", "checkpoint", "accumulate", "optimizer", "schedule", "objective",
                 "clip", "average", "freeze", "layout", "offload", "shard", "capture"],
    "Data and state": ["data", "images", "augmentation", "tokenizer", "tables", "shards",
                       "samplers", "fit", "logging", "evaluate", "metrics", "state", "tensors",
                       "between_steps",
                       "reproducibility"],
    "Guides": ["profiling", "observe", "profiler", "memory", "memory_tools", "programs", "production", "devices",
               "gpu", "modules", "pieces", "any_trainer"],
    "Extending": ["extending", "step", "architecture"],
    "Reference": ["reference/index", "errors", "glossary"],
    "Project": ["contributing", "support", "parity", "bench", "bench-gpu", "long", "migrate",
                "CHANGELOG"],
}


def toctrees(names):
    """The site's navigation over the pages `names` of docs/, as Markdown for the end of the front
    page. Raises where a page is in no group."""
    left = set(names)
    blocks = []
    for caption, pages in GROUPS.items():
        there = [page for page in pages if page in left or page in ("CHANGELOG", "reference/index")]
        left -= set(pages)
        lines = [page if page in ("CHANGELOG", "reference/index") else f"docs/{page}"
                 for page in there]
        if caption == "Start":
            lines.insert(0, "ikebana <self>")
        blocks.append(toctree(caption, lines))
    if left:
        raise SystemExit(f"docs/site/navigation.py has no place for {', '.join(sorted(left))}")
    return "\n\n".join(blocks)


def toctree(caption, lines):
    body = "\n".join(lines)
    title = f":caption: {caption}\n" if caption else ""
    return f"```{{toctree}}\n:hidden:\n{title}\n{body}\n```"
