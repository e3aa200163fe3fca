"""Shows in texts what varies in them: as a name between BEGIN and END, which no source has."""
import itertools
import re

BEGIN, END = "\ue000", "\ue001"
MOST = 12  # the most texts of one expression; beyond, the choices are written in brackets

# These are functions whose text is better shown by a name than by its parts: by the name of the
# function, or by the header that calls it and that. A text with braces has names in them.
SHOWN_AS = {
    "sizes": "shape", "scalar_type": "dtype", "dtype": "dtype", "device": "device",
    "numel": "number", "layout": "layout", "size": "number", "nth": "tensor", "described": "tensor",
    "tensors_text": "tensors", "message_of": "its text", "what": "its text",
    "what_without_backtrace": "its text", "text_of": "its text", "text_of_libtorch": "its text",
    "strerror": "reason", "bytes_text": "bytes", "seconds_text": "seconds", "excerpt": "name",
    "module_of": "module", "demangle": "type", "tagKind": "type", "substr": "text",
    "where_text": "where", "pair": "rank of ranks", "quoted_list": "names", "name_of": "name",
    "policy_name": "policy", "listed_policies": "policies", "take_other_policies": "policies; ",
    "written_by": "operator", "joined": "list", "hex8": "hex", "place": " in unit {unit}",
    "nearest_names": " ({rule}; of {n} names, the nearest are {names})", "names_of": " ({names})",
    "suggestion_for": "what to do", "suggestion": "what to do", "reason": "what the ranks report",
    "batch/ragged.hpp:text": "tensor", "data/pad_collate.hpp:text": "indices",
    "checkpoint/frame/frame.hpp:text": "shape and dtype", "modules/attention.hpp:text": "shape",
    "shard/group/connection.hpp:text": "call", "shard/launch/meeting.hpp:get": "refusal",
    "shard/launch/rank_processes.hpp:described": "rank, and how it ended",
    "exception_text": "its text", "place_text": "`{operator}`, in {phase} of `{unit}`, ",
    "shape_text": "dtype and shape", "capture/recorder.hpp:difference": "difference",
}
# Parameters and variables that stay names, by the header.
KEPT = {"state/archive.hpp:name", "core/rethrow.hpp:lost", "core/rethrow.hpp:memory",
        "ranks/rank_group.hpp:call", "ranks/together.hpp:call", "schedule/cycling.hpp:other"}
# Replaces names of the source by better ones.
NAMES = {"address_of": "host:port", "rank_in_world": "rank", "sizeof": "number", "get": "value",
         "some_indices": "indices", "unit_name": "unit", "what": "its text", "seed": "gradient",
         "a": "name", "b": "name", "k": "name", "table": "names", "g": "number",
         "r": "rank", "host": "offset", "which": " (the gradient of `name`)", "1": "header"}
# These functions return the text that they are given, or of the object on which they are called.
PLAIN = {"string", "escaped", "c_str", "move", "string_view", "without_end", "get", "ref",
         "runtime_error", "IntArrayRef"}


def varies(name):
    return f"{BEGIN}{NAMES.get(name, name)}{END}"


def has_literal(text):
    """Whether it has a letter of its own."""
    return bool(re.search(r"[A-Za-z]", re.sub(f"{BEGIN}[^{END}]*{END}", "", text)))


def joined(choices):
    """Returns every concatenation of one text of each list. If these are too many, the choices
    are in brackets."""
    count = 1
    for texts in choices:
        count *= len(texts)
    if count > MOST:
        big = max(choices, key=len)
        text = "[" + " | ".join(dict.fromkeys(big)) + "]"
        return joined([[text] if texts is big else texts for texts in choices])
    return list(dict.fromkeys("".join(parts) for parts in itertools.product(*choices)))
