#!/usr/bin/env python3
"""The size of what one has to read: of files, functions and lines.

    budgets.py ROOT    exits 1 and names each file, function and line that is too long
    budgets.py self    the same on sources made here: every breach is found, and nothing else
"""
import ast
import pathlib
import re
import sys

FILE, PAGE, TASK, FUNCTION, LINE = 400, 80, 100, 40, 100
FOLDERS = "include", "src", "examples", "test", "bench", "cmake", "scripts"
SKIPPED = re.compile(
    r"""//[^\n]*|/\*.*?\*/                          # comments
      | R"(?P<end>[^()\s]*)\(.*?\)(?P=end)"         # raw strings
      | "(?:\\.|[^"\\\n])*"                         # strings
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'         # characters, not the marks in 1'000
      | ^[ \t]*\#(?:\\\n|[^\n])*                    # directives, macros with them
    """, re.X | re.S | re.M)
TEMPLATE_ARGUMENTS = re.compile(r"<[^<>()]*>|\([^()]*\)")
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b")


def is_scope(head):
    """A namespace or a class: what is inside counts by itself."""
    while (shorter := TEMPLATE_ARGUMENTS.sub(" ", head)) != head:
        head = shorter
    return SCOPE.search(head) is not None


def cpp_functions(text):
    """(first line, lines) of every block in braces that stands in a namespace or a class. Lambdas
    and local classes are part of the function around them."""
    text = SKIPPED.sub(lambda skipped: re.sub(r"[^\n]", " ", skipped.group()), text)
    head, depth, goes_on = 0, 0, re.compile(r"\s*[,{]")
    for mark in re.finditer(r"[{};]", text):
        at = mark.start()
        if depth > 0:
            depth += {"{": 1, "}": -1, ";": 0}[mark.group()]
            if depth == 0 and not goes_on.match(text, at + 1):  # else a member's initializer
                begin = head + re.match(r"\s*", text[head:]).end()
                yield text.count("\n", 0, begin) + 1, text.count("\n", begin, at) + 1
                head = at + 1
        elif mark.group() == "{" and not is_scope(text[head:at]):
            depth = 1
        else:
            head = at + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            yield node.lineno, node.end_lineno - node.lineno + 1


def between(begin, end):
    def functions(text):
        first = None
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(begin, line):
                first = number
            elif first and re.match(end, line):
                yield first, number - first + 1
                first = None
    return functions


FUNCTIONS_OF = {
    ".hpp": cpp_functions, ".cpp": cpp_functions, ".inc": cpp_functions,
    ".ipp": cpp_functions, ".py": python_functions,
    ".cmake": between(r"function\(", r"endfunction\("), ".txt": between(r"function\(", "endfun"),
    "": between(r"\w+\(\) \{$", r"\}$"),  # shell
}


def breaches(name, text):
    lines = text.splitlines()
    file, function = (PAGE, PAGE) if name == "include/ikebana/step.hpp" else (FILE, FUNCTION)
    if name.startswith("examples/tasks/"):  # programs to be read at a glance
        file = TASK
    if len(lines) > file:
        yield f"{name}: {len(lines)} lines; {file} are allowed"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE:
            yield f"{name}:{number}: {len(line)} characters; {LINE} are allowed"
    for first, length in FUNCTIONS_OF[pathlib.Path(name).suffix](text):
        if length > function:
            yield f"{name}:{first}: a function of {length} lines; {function} are allowed"


def files_of(root):
    yield from (root / name for name in ("CMakeLists.txt", "conanfile.py"))
    for folder in FOLDERS:
        yield from (root / folder).rglob("*")


def judge(root):
    files = sorted(f for f in files_of(root) if f.is_file() and f.suffix in FUNCTIONS_OF)
    wrong = [b for f in files for b in breaches(f.relative_to(root).as_posix(), f.read_text())]
    print("\n".join(wrong) or f"{len(files)} files within their budgets")
    return 1 if wrong or len(files) < 100 else 0


def of_lines(count, first, last="}"):
    """A source of `count` lines whose braces in strings and comments mean nothing."""
    middle = ['f("{", \'}\', 1\'000);  // {', "auto g = [&](int i) { return i; };", "/* { */ h();"]
    return "\n".join([first, *(middle[i % 3] for i in range(count - 2)), last, ""])


def self_test():
    allowed, long = FUNCTION, FUNCTION + 1
    heads = ("void f() {", "template <class T> Struct<T> f(struct S s) requires(sizeof(T) < 8) {",
             "A::A(int i) : Base{i}, j{i} {", 'TEST_CASE("{ one") {', "auto f = [] {",
             "friend bool operator<(const A&, const A&) {")
    scopes = ("namespace a::b {", "class A : public B<int> {", "enum class E {", 'extern "C" {',
              "template <class T> requires(sizeof(T) < 8) struct __attribute__((packed)) A<T> {")
    function = of_lines(allowed, "int f() {")
    assert list(cpp_functions(of_lines(long, scopes[0]))) != [(1, long)]
    for head in heads:
        assert list(breaches("a.hpp", of_lines(allowed, head))) == [], head
        assert "function of 41" in "".join(breaches("a.hpp", of_lines(long, head))), head
        for scope in scopes:
            inside = "\n".join([scope, function, of_lines(long, head), "};"])
            assert [b.split(":")[1] for b in breaches("a.hpp", inside)] == ["43"], inside
    others = (("a.py", "def f():", " 1"), ("a.cmake", "function(f)", "endfunction()"),
              ("CMakeLists.txt", "function(f)", "endfunction()"), ("a", "f() {", "}"))
    for name, first, last in others:
        for count, found in ((allowed, 0), (long, 1)):
            text = "\n".join([first, *[" 1"] * (count - 2), last, ""])
            assert len(list(breaches(name, text))) == found, name
    assert not list(breaches("a.hpp", ";\n" * FILE)) and list(breaches("a.hpp", ";\n" * (FILE + 1)))
    assert list(breaches("include/ikebana/step.hpp", ";\n" * (PAGE + 1)))
    for count, found in ((TASK, 0), (TASK + 1, 1)):
        assert len(list(breaches("examples/tasks/a.cpp", ";\n" * count))) == found
    assert not list(breaches("a.py", "#" * LINE)) and list(breaches("a.py", "#" * (LINE + 1)))
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1] == "self" else judge(pathlib.Path(sys.argv[1])))
