"""How gdb shows ikebana's Trainer, Report and Loss. In gdb: source scripts/gdb/ikebana.py

Reads memory and calls nothing in the program, so it works on a core dump as well. Values in tensors
are shown if they are on the host, and if the program was compiled by g++ with -g
-femit-class-debug-always (clang: -fstandalone-debug): LibTorch's wheel has no debug information of
its own, and without the flag g++ leaves its classes out.
"""

import re
import struct

import gdb
import gdb.printing
import gdb.types

# These are LibTorch's numbers of dtypes, with the format of one element. BFloat16 is the upper half
# of a Float.
FORMATS = {0: "B", 1: "b", 2: "h", 3: "i", 4: "q", 5: "e", 6: "f", 7: "d", 11: "?", 15: "bf16"}
DEVICES = {0: "cpu", 1: "cuda", 9: "xla", 12: "xpu", 13: "mps", 14: "meta", 20: "privateuseone"}
UNSEEN = "in a tensor (compile with -femit-class-debug-always to see it)"


def device_name(device):
    kind, index = int(device["type_"]), int(device["index_"])
    name = DEVICES.get(kind, f"device {kind}")
    return name if index < 0 else f"{name}:{index}"


def in_optional(value):
    """Returns the value of a std::optional of libstdc++, or None."""
    payload = value["_M_payload"]
    return payload["_M_payload"]["_M_value"] if payload["_M_engaged"] else None


def is_complete(pointer):
    return any(True for _ in pointer.type.target().strip_typedefs().fields())


class Undefined(Exception):
    """The tensor holds nothing."""


def number(tensor):
    """Returns the one number of a tensor, or words on where it is. Throws Undefined."""
    impl = tensor["impl_"]["target_"]
    if not is_complete(impl):
        try:
            none = int(gdb.parse_and_eval("(long)&'c10::UndefinedTensorImpl::_singleton'"))
        except gdb.error:
            none = None
        if int(impl) == none:
            raise Undefined
        return UNSEEN
    impl = impl.dereference()
    device = in_optional(impl["device_opt_"])
    if device is None:
        raise Undefined
    if int(device["type_"]) != 0:
        return f"on {device_name(device)}"
    kind, count = int(impl["data_type_"]["index_"]), int(impl["numel_"])
    storage = impl["storage_"]["storage_impl_"]["target_"]
    if count != 1 or kind not in FORMATS or int(storage) == 0:
        return f"{count} elements"
    form = FORMATS[kind]
    size = 2 if form == "bf16" else struct.calcsize("=" + form)
    begin = int(storage["data_ptr_"]["ptr_"]["data_"]) + size * int(impl["storage_offset_"])
    raw = bytes(gdb.selected_inferior().read_memory(begin, size))
    if form == "bf16":
        return struct.unpack("=f", b"\0\0" + raw)[0]
    return struct.unpack("=" + form, raw)[0]


def shown(value):
    return value if isinstance(value, str) else f"{value:.6g}"


def optional_number(tensor):
    try:
        return number(tensor)
    except Undefined:
        return None


def count_of(count):
    found = optional_number(count["tensor_"])
    return float(count["items_"]) if found is None else found


def text(value):
    """A std::string of libstdc++."""
    pointer, length = value["_M_dataplus"]["_M_p"], int(value["_M_string_length"])
    return pointer.string("utf-8", "replace", length)


def elements(vector):
    """Of a std::vector of libstdc++, or of a c10::SmallVector."""
    kind = vector.type.strip_typedefs()
    if kind.name.startswith("std::"):
        at, end = vector["_M_impl"]["_M_start"], vector["_M_impl"]["_M_finish"]
        while at != end:
            yield at.dereference()
            at += 1
        return
    element = kind.template_argument(0)
    begin = vector["BeginX"].cast(element.pointer())
    for i in range(int(vector["Size"])):
        yield (begin + i).dereference()


def term(part):
    """Returns `sum / count * scale` of a term, and its value if it can be read."""
    total, count = optional_number(part["sum"]), count_of(part["count"])
    scale = float(part["scale"])
    words = f"{'none' if total is None else shown(total)} / {shown(count)}"
    if scale != 1:
        words += f" * {scale:.6g}"
    known = isinstance(total, (int, float)) and isinstance(count, (int, float)) and count
    return words, total / count * scale if known else None


def arguments(name):
    """Returns the arguments of a template, whose name gdb writes as
    `Trainer<std::shared_ptr<Net>, Precision<BF16> >`."""
    found, depth = [""], 0
    for letter in name[name.index("<") + 1 : name.rindex(">")]:
        depth += (letter in "<({") - (letter in ">)}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [argument.strip() for argument in found]


class TrainerPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        names = arguments(gdb.types.get_basic_type(self.value.type).name)
        model = re.sub(r"^std::shared_ptr<(.*)>$", r"\1", names[0])
        recipe = ", ".join(name.replace("ikebana::", "") for name in names[1:])
        core = self.value["core_"]["_M_ptr"]
        if int(core) == 0:
            return f"Trainer of {model}, moved from"
        core = core.dereference()
        steps = int(core["step"]["attempts"])
        return (f"Trainer of {model}, {steps} steps, on {device_name(core['device'])}, "
                f"recipe <{recipe}>")


class ReportPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        report = self.value
        parts = [term(part) for part in elements(report["value"]["parts"])]
        if not parts:
            return "Report of no step"
        if all(value is not None for _, value in parts):
            loss = shown(sum(value for _, value in parts))
        else:
            loss = " + ".join(words for words, _ in parts)
        words = [f"Report of step {int(report['step'])}", f"loss {loss}",
                 f"lr {float(report['learning_rate']):.6g}",
                 f"{int(report['microbatches'])} microbatches"]
        norm, skipped = optional_number(report["norm"]), optional_number(report["found_inf"])
        if norm is not None:
            words.append(f"grad norm {shown(norm)}")
        if isinstance(skipped, str):
            words.append(f"skipped {skipped}")
        elif skipped:
            words.append("skipped")
        return ", ".join(words)


class LossPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        loss = self.value
        total = optional_number(loss["sum"])
        words = [f"Loss of sum {'none' if total is None else shown(total)}",
                 f"count {shown(count_of(loss['count']))}"]
        words += [f"`{text(part['name'])}` {term(part)[0]}" for part in elements(loss["terms"])]
        return ", ".join(words)


def printers():
    found = gdb.printing.RegexpCollectionPrettyPrinter("ikebana")
    found.add_printer("Trainer", r"^ikebana::Trainer<.*>$", TrainerPrinter)
    found.add_printer("Report", r"^ikebana::Report$", ReportPrinter)
    found.add_printer("Loss", r"^ikebana::Loss$", LossPrinter)
    return found


gdb.printing.register_pretty_printer(None, printers(), replace=True)
