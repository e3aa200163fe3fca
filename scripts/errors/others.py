"""Finds the errors that are not in headers: of CMake, and of the scripts in shell and in Python."""
import ast
import re

from names import varies
from sites import Message

QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"', re.S)
IN_CMAKE = re.compile(r"(?:message\((?:FATAL_ERROR|WARNING)|set\((?:sentence|\$\{refusal\}))\s+"
                      r'((?:"(?:\\.|[^"\\])*"\s*)+)', re.S)
IN_SHELL = re.compile(r"\bdie (?=[\"'])")
SHELL_SCRIPTS = "setup", "installed.sh", "libtorch", "gpu", "gpu-bundle", "long"
PYTHON_SCRIPTS = "pth_to_safetensors.py", "gguf_to_safetensors.py"


def of_cmake(root):
    for path in [root / "CMakeLists.txt", *sorted((root / "cmake").glob("*.cmake")),
                 root / "test/gpu/CMakeLists.txt"]:
        text = path.read_text()
        for found in IN_CMAKE.finditer(text):
            message = "".join(re.sub(r"\\\n", "", q) for q in QUOTED.findall(found[1]))
            if re.fullmatch(r"(?:ikebana: )?(?:\$\{\w+\})?\.?", message):
                continue  # a sentence of another place
            message = re.sub(r"\$\{(\w+)\}", lambda m: varies(m[1]), message)
            message = message if message.startswith("ikebana: ") else f"ikebana: {message}"
            yield Message("build", path.relative_to(root).as_posix(), line_of(text, found), message)


def line_of(text, found):
    return text.count("\n", 0, found.start()) + 1


def of_shell(root):
    for name in SHELL_SCRIPTS:
        text = (root / "scripts" / name).read_text()
        prefix = re.search(r'die\(\) \{ echo "(\w[\w-]*): ', text)
        for found in IN_SHELL.finditer(text):
            message = " ".join(shell_texts(text, found.end()))
            yield Message("build", f"scripts/{name}", line_of(text, found),
                          f"{prefix[1] if prefix else 'setup'}: {message}")


def shell_texts(text, at):
    """Returns the quoted words from `at` on."""
    while text[at] in "\"'":
        quote, begin, at = text[at], at + 1, at + 1
        while text[at] != quote:
            if quote == '"' and text.startswith("$(", at):
                at = closing(text, at + 1)
            at += 2 if text[at] == "\\" else 1
        yield text[begin:at] if quote == "'" else shell_text(text[begin:at])
        at += 1
        at += len(re.match(r"(?:[ ]|\\\n)*", text[at:]).group())


def closing(text, at):
    """Returns the index at which the parenthesis that opens at `at` is closed."""
    depth = 0
    while True:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1


def shell_text(text):
    text, at = text.replace(r"\`", "`"), 0
    while (at := text.find("$(", at)) >= 0:
        text = text[:at] + varies("text") + text[closing(text, at + 1) + 1 :]
    text = re.sub(r"\$\{#?(\w+)[^}]*\}", lambda m: varies(m[1]), text)
    return re.sub(r"\$(\w+)", lambda m: varies(m[1]), text)


def of_python(root):
    """`raise Refused(text)` and `sys.exit(text)`; the former is printed behind the file's name."""
    for name in PYTHON_SCRIPTS:
        text = (root / "scripts" / name).read_text()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called, message = ast.unparse(node.func), python_text(node.args[0])
            if called == "Refused" and message:
                message = f"{name[:-3]}: {varies('file')}: {message}."
            elif called != "sys.exit" or not message or varies("why") in message:
                continue
            yield Message("script", f"scripts/{name}", node.lineno, message)


def python_text(node):
    """Returns the text of a literal, formatted or added, or None if it has no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else varies(
            re.findall(r"[A-Za-z_]\w*", ast.unparse(v.value))[-1]) for v in node.values)
    if isinstance(node, ast.BoolOp):
        return varies("reason")
    return None
