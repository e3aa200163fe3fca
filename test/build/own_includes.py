#!/usr/bin/env python3
"""Whether each .cpp of examples/ and test/ includes what it uses, itself or by headers of the tree.
The compiler does not see it in preset ci: there LibTorch and ikebana.hpp are precompiled, and
several files are compiled as one.

    own_includes.py ROOT    exits 1 and names each file that uses what it does not include
    own_includes.py self    the same on files made here: every breach is found, and nothing else

What the interfaces of LibTorch and ikebana are written with comes with them: std::vector,
std::string, std::optional and the like.
"""
import pathlib
import re
import sys
import tempfile

# Each entry is a use, and the headers of which one must be included: two patterns.
LIBRARIES = {
    r"\bikebana::|\bnamespace ikebana\b": r"ikebana(?:\.hpp|/.*)",
    r"\bmodules::": r"ikebana/modules/.*",
    r"\b(?:at|c10|torch)::": r"(?:ATen|c10|torch)/.*|ikebana(?:\.hpp|/.*)",
}
# In examples/, which users copy, these are also parts of LibTorch, headers of examples/ themselves,
# and names of the standard library and of POSIX.
PARTS = {
    r"\btorch::(?:data|nn|optim)\b|\bTORCH_MODULE\b": r"torch/.*",
    r"\bat::get_cpu_capability\b": "ATen/Version.h", r"\bTrainer\b": "ikebana.hpp",
    r"\bWindows\b": "text.hpp",
    r"\bround_of\b": "policies.hpp",
}
STANDARD = {
    "algorithm": "clamp|find_if|max|min|nth_element|sort|transform", "atomic": "atomic",
    "chrono": "chrono", "cmath": "abs|cos|exp|isfinite|isnan|log|pow|sin|sqrt",
    "cstdio": "fflush|fprintf|printf|snprintf", "cstdlib": "atof|atoi|atoll|exit|getenv|strtod",
    "filesystem": "filesystem", "fstream": "ifstream|ofstream", "functional": "function",
    "iostream": "cerr|cin|cout", "latch": "latch", "limits": "numeric_limits", "map": "map",
    "mutex": "lock_guard|mutex|unique_lock", "numbers": "numbers", "numeric": "accumulate",
    "random": r"mt19937|random_device|\w+_distribution", "set": "set",
    "sstream": "[io]?stringstream", "stdexcept": "invalid_argument|runtime_error",
    "thread": "jthread|this_thread|thread",
}
POSIX = {"signal.h": "kill|signal", "sys/wait.h": "waitpid",
         "unistd.h": "_exit|fork|getpid|isatty"}
MODELS = {"GPT": "gpt", "Llama": "llama", "ViT": "vit", "UNet": "unet", "ResNet": "resnet",
          "LSTMLanguageModel": "lstm", "DLRM": "dlrm", "Mixer": "mlp_mixer"}
ALL = LIBRARIES | PARTS
ALL |= {rf"\b{name}\b": rf"(?:models/)?{header}\.hpp" for name, header in MODELS.items()}
ALL |= {rf"\bstd::(?:{names})\b": header for header, names in STANDARD.items()}
ALL |= {rf"(?<![\w.>])(?:{names})\(": header for header, names in POSIX.items()}

INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)
SKIPPED = re.compile(r'//[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.S)


def unit_of(file, folders):
    """The files of the tree that a .cpp consists of, and all headers that they name."""
    files, headers = [file], set()
    for file in files:
        for name in INCLUDE.findall(file.read_text()):
            paths = (folder / name for folder in (file.parent, *folders))
            path = next((path.resolve() for path in paths if path.is_file()), None)
            headers.add(name)
            if path is not None and path not in files:
                files.append(path)
    return files, headers


def breaches(file, folders, uses):
    files, headers = unit_of(file, folders)
    text = "".join(SKIPPED.sub("", part.read_text()) for part in files)
    for use, needed in uses.items():
        found = re.search(use, text)
        if found and not any(re.fullmatch(needed, header) for header in headers):
            yield f"{file}: `{found.group()}` is used, and no header {needed} is included"


def check(root):
    examples, tests = folders = root / "examples", root / "test"
    units = [(file, ALL) for file in sorted(examples.rglob("*.cpp"))]
    units += [(file, LIBRARIES) for file in sorted(tests.rglob("*.cpp"))]
    wrong = [breach for file, uses in units for breach in breaches(file, folders, uses)]
    print("\n".join(wrong) or f"{len(units)} files include what they use")
    return 1 if wrong or len(units) < 100 else 0


def self_test():
    own = '#include "net.hpp"\n// std::cout << torch::nn\nauto s = "std::set"; a.kill(b->signal());'
    cases = (
        ("", "ikebana::Loss l;", "ikebana"), ("ikebana/step.hpp", "ikebana::Loss l;", ""),
        ("ikebana.hpp", "Trainer t{at::ones(1)};", ""), ("ikebana/step.hpp", "Trainer t;", "hpp"),
        ("ikebana.hpp", "at::Tensor t;", ""), ("vector", "at::Tensor t;", "ATen"),
        ("ikebana.hpp", "namespace nn = torch::nn;", "torch/"),
        ("torch/torch.h", "TORCH_MODULE(N);", ""), ("ikebana.hpp", "TORCH_MODULE(N);", "torch/"),
        ("ikebana.hpp", "modules::KVCache c;", "ikebana/modules"), ("", "std::vector<int> v;", ""),
        ("ostream", "std::cout << 1;", "iostream"), ("iostream", "std::cout << 1;", ""),
        ("", "f(std::sqrt(2));", "cmath"), ("", "::kill(1, 2);", "signal.h"),
        ("", "int i = fork();", "unistd.h"), ("unistd.h", "fork();", ""),
    )
    with tempfile.TemporaryDirectory() as name:
        file, header = pathlib.Path(name) / "a.cpp", pathlib.Path(name) / "net.hpp"
        for include, use, found in cases:
            line = f"#include <{include}>\n"
            for here, there in ((own + line + use, ""), (own, line + use), (own + line, use)):
                file.write_text(here.replace(own, own + "\n"))
                header.write_text(there)
                wrong = list(breaches(file, (), ALL))
                assert len(wrong) == bool(found) and found in "".join(wrong), (here, there, wrong)
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1] == "self" else check(pathlib.Path(sys.argv[1])))
