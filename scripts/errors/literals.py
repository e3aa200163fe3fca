"""Checks, besides every `throw`, that every sentence in a header is on the page, or belongs to no
error. It finds what a helper is given in a way that tree.py does not see."""
import re

FEWEST_WORDS = 4
# Lists literals that are no text of an error, by their beginning, and why.
OTHERS = {
    "what a report or a policy describes itself as": (
        "keeps matrix products", "keeps operators by a", ", skips a norm", "skips a norm",
        ", otherwise AdamW", "autocast to", "BFloat16 weights without", "BFloat16 parameters, F",
        "linear layers in Float8", ", the rest autocast", ", products by LibTorch",
        ", products in Float32", "\n  a worker makes a", ", the loop takes one",
        ", and waited for ", " workers would keep", ", chosen by a sampler", ", without a smaller",
        "\n  no workers: the", ", each up to ", "has no effect on", "the model's own",
        " attempts that ran"),
    "tables, pages and results": (
        "  with one of these", "%.2f bytes", "memory held between", "  of these, on",
        "  parameters, gradients", "allocated before", "free within used", "  the cache was",
        " times to find room", "memory of a step", "a write in place breaks",
        " in the first bucket", "fit: resumes after",
        "Self CPU time total:", "Self device time total:", ",\n  {\n    \"ph\": \"X\"",
        ",\n    \"args\": {", ", \"ph\": \"M\"", "; the window ended early",
        "no step was recorded yet", "no unit was recorded yet", "\n  no backward comes to",
        "\n  its results get gradients", "\n  it uses a cast of",
        ", without the first", " steps, times in ms per step", " % of the matmul bound",
        "  %.0f %% of the bound"),
    "what files of other formats contain": (
        "{\"format\": \"ikebana disk", "', 'fortran_order'", " L Lu Ll Lt Lm"),
    "what Observe<FirstNonFinite> adds to the text of another error": (
        ": mend the data", "` was given a tensor", ", at the indices", " In a repeat of the step",
        ", which no operator has made", " The batch of step", " was written to after that step",
        " This is of step", " All values were finite when", "` was not finite before"),
    "what a comparison of flight recorders says, and a summary of ranks": (
        " left no record of", " did not begin exchange",
        "All records end at exchange", ", which ended on", "all of these ranks",
        " By the clocks of their hosts", " exchanges, times in ms",
        " is the slowest: the others", " % of the step for", "no step was measured",
        "no rank is slower", "the times of ranks"),
    "what a number that is loaded must be, in the list of `restore:`": (
        "the number of parts", "a whole number", "a number of batches", "an index of"),
    "names of calls and parts of a text, which stand there as <name>": (
        "a step in fewer", "an attempt in more", "the beginning of", "the load of a",
        "a custom autograd function", ", in the forward", "a backend of its own",
        "backward will throw, since it was changed", ", not a whole number",
        "it threw something that is", "Return logits from the model", "Give it log_softmax of",
        " makes of an lr of", " makes of a momentum", "the learning rate of this step",
        "what the schedule makes of", ", which the program wrote", ", which was written,",
        "Start the ranks, leave `ranks`", "Give every rank a loader of", ", as that of rank",
        ": both would read the same part", "Give `fit` the same options",
        "a call of a module", "a meeting after a failure", "the broadcast of rank 0's",
        "an exchange of the optimizer's", "the metrics of training"),
    "phrases that are searched for in texts of others": (
        "driver on your system", "could not create a primitive", " This could be",
        "input should be", "target should be"),
    "what follows the table of an error of memory": ("With #include",),
    "what is printed before the process aborts": ("ikebana: one file of",),
    "problems that `export_program` lists, and names of what it writes": (
        " gives the host a number", " has a result whose size", "a tensor that the forward",
        "an input of the model", "`), and an evaluation must", " draws from a generator of its",
        " reads a view that no", " False None True",
        " T_destination add_module", " abs aiter all anext", "{\"type\": null"),
    "what the compiler warns of a deprecated name": ("use with_full_weights(f,",),
    "schemas of operators": ("ikebana::bn_relu(", "ikebana::bn_relu_backward(",
                             "ikebana::chunked_attention(", "ikebana::composed_attention(",
                             "ikebana::linear_cross_entropy("),
    "what no user meets": (
        "checkpoint: a gradient reached", "DataLoader: it is being", "ranks: finish_swap",
        "json: a call in", "archive: another size than", "the messages were", "the ranks did not",
        "exceptions cannot leave", ": not enough memory",
        "launch: /proc/self/exe", "Program: a unit has a unit"),
}

# Headers with the texts of a report and its pictures. tree.py finds what they throw.
REPORTS = re.compile(r"profiling/(?:report_|plots|svg|profile_answers|roofline|form_pairs|"
                     r"diagnosis|conditions)")


def same(text):
    """Returns a text without what the page adds to it."""
    return re.sub(r"[\s`*]+", " ", text)


def literals(source):
    """Yields (line, text) of the literals of a header. Literals that follow each other are one."""
    tokens, at = source.tokens, 0
    while at < len(tokens):
        end = at
        while end < len(tokens) and tokens[end].kind == "string":
            end += 1
        if end > at:
            yield tokens[at].line, "".join(t.value for t in tokens[at:end])
        at = end + 1


def unlisted(tree, page):
    """What a header says and the page does not."""
    page = same(re.sub(r"`+ \*\*`+|`+\*\*", " ", page))
    used = set()
    for source in tree.sources.values():
        for line, text in literals(source) if not REPORTS.match(source.name) else ():
            if len(text.split()) < FEWEST_WORDS or same(text).strip(" .;:,") in page:
                continue
            known = [b for beginnings in OTHERS.values() for b in beginnings if text.startswith(b)]
            used |= set(known)
            if not known:
                yield (f"{source.name}:{line}: the page has no `{same(text).strip()}`: let tree.py "
                       "find it, or say in scripts/errors/literals.py why it is no error")
    for beginnings in OTHERS.values():
        yield from (f"no header has this text of scripts/errors/literals.py: {b}"
                    for b in beginnings if b not in used)
