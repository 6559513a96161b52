"""Tests of docstrings: each name in docs/reference explains every argument on a line of its own, and examples print
what they show.
"""

import ast
import doctest
import re
from collections.abc import Iterator

import pytest
from reference_names import PACKAGES, ROOT, named

from bounds.listing import papers

BULLET = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)
EXPLAINED = re.compile(r"^    (\w+): (.*(?:\n     .*)*)", re.MULTILINE)
DEFAULT = re.compile(
    r"\b(default|None|unless|without|else|otherwise|if|where given|in place of|as (in|of|FedGuCci|`\w))", re.IGNORECASE
)
ARRAYS = re.compile(r"\b(np\.ndarray|Estimate|Tensor)\b")
# An annotation that matches says the shape, or is not the annotation of an array.
SHAPED = re.compile(r"\b(Float|Int|Bool)\[.*?'[^']*'\]|Callable\[.*\]")
# such as "(n, C)", "a number"
SAID = re.compile(r"\([\w*. +]+,[^()]*(\([^()]*\)[^()]*)*\)|\bshapes?\b|\bAs `|\ba number\b")
# A docstring that begins with one of these words has no subject.
NO_SUBJECT = re.compile(r"(Of|That|Those|Both)\b[ ,.]")
SOURCE = re.compile(r"^Source:.*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
OPENED = re.compile(
    rf"docs/proofs/\w+\.md#[\w-]+|arXiv:\d{{4}}\.\d{{4,5}}|https://|doi:10\.|\b({'|'.join(papers())})/[A-Z\w]"
)


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """Yields the classes and functions of a module with their qualified names, nested ones too."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield prefix + node.name, node
            inner = "." if isinstance(node, ast.ClassDef) else ".<locals>."
            yield from definitions(node.body, f"{prefix}{node.name}{inner}")


def arguments(node: ast.ClassDef | ast.FunctionDef) -> list[str]:
    """Returns a caller's arguments: parameters, or the fields of a class and the parameters of its `__init__`."""
    if isinstance(node, ast.ClassDef):
        fields = [child.target.id for child in node.body if isinstance(child, ast.AnnAssign)]
        return fields + [
            name
            for child in node.body
            if isinstance(child, ast.FunctionDef) and child.name == "__init__"
            for name in arguments(child)
        ]
    given = node.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [child.arg for child in parameters if child and child.arg not in ("self", "cls")]


def section(text: str | None, name: str) -> str:
    """Returns the lines of a section of a docstring, or "" if there is no such section."""
    return re.split(r"\n\n|\n(?=\S)", f"\n{text or ''}".partition(f"\n{name}:\n")[2])[0]


def documented(package: str, having: str = "") -> Iterator[tuple[str, bool, ast.ClassDef | ast.FunctionDef]]:
    """Yields every definition of a package that has a docstring: its name, whether docs/reference names it, its node.

    Files without the text `having` are skipped.
    """
    for path in sorted((ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if having not in text:
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for name, node in definitions(ast.parse(text).body):
            if ast.get_docstring(node):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}", (module, name) in named(), node


def is_listed(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """Says whether a definition needs a list of arguments.

    A property needs none. An overload needs none either, because the implementation has the list.
    """
    marks = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
    return isinstance(node, ast.FunctionDef) and not marks & {"property", "cached_property", "overload"}


def raises(node: ast.FunctionDef) -> bool:
    """Says whether a definition's own lines raise an error that a caller may meet."""
    errors = [ast.unparse(child.exc) for child in ast.walk(node) if isinstance(child, ast.Raise) and child.exc]
    return any(not error.startswith(("NotImplementedError", "AssertionError")) for error in errors)


def defaults(node: ast.FunctionDef) -> dict[str, str]:
    """Returns the defaults of a function's arguments, as the code writes them."""
    given = node.args
    parameters = [*given.posonlyargs, *given.args]
    pairs = zip(parameters[len(parameters) - len(given.defaults) :], given.defaults, strict=True)
    return {child.arg: ast.unparse(value) for child, value in pairs} | {
        child.arg: ast.unparse(value) for child, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value
    }


def gives_several(node: ast.FunctionDef) -> bool:
    """Says whether a function returns a tuple of different things."""
    result = node.returns
    return (
        isinstance(result, ast.Subscript)
        and ast.unparse(result.value) == "tuple"
        and not ast.unparse(result.slice).rstrip(")").endswith("...")
    )


def faults(name: str, is_named: bool, node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    """Yields a message for each part that a docstring lacks, and for each part that it should not have."""
    text = ast.get_docstring(node)
    listed = [argument for line in BULLET.findall(section(text, "Args")) for argument in line.split(", ")]
    if not is_named:
        if "Args:" in text:
            yield f"{name} lists its arguments, and docs/reference does not name it: say in a sentence what surprises"
        return
    if len(listed) > len(BULLET.findall(section(text, "Args"))):
        yield f"{name} explains several arguments in one line"
    if unknown := set(listed) - set(arguments(node)):
        yield f"{name} has no argument {', '.join(sorted(unknown))}"
    if is_listed(node):
        bullets = dict(EXPLAINED.findall(section(text, "Args")))
        for argument, default in defaults(node).items():
            if default not in ("True", "False") and argument in bullets and not DEFAULT.search(bullets[argument]):
                yield f"{name} does not say that {argument} is {default} by default"
        if missing := [argument for argument in arguments(node) if argument not in listed]:
            yield f"{name} does not explain {', '.join(missing)}"
        if raises(node) and "Raises:" not in text:
            yield f"{name} does not say what it raises"
        if gives_several(node) and "Returns:" not in text:
            yield f"{name} does not say what each of the values is that it returns"
    if isinstance(node, ast.FunctionDef) and node.returns and ARRAYS.search(SHAPED.sub("", ast.unparse(node.returns))):
        if not SAID.search(re.split(r"\n(?:Args|Raises):", text)[0] + text.partition("\nReturns:")[2]):
            yield f"{name} does not say the shape of what it returns, as (n, C), in its summary or under Returns"
    if (source := SOURCE.search(text)) and not OPENED.search(source[0]):
        yield f"{name} has a source that a reader cannot open: give a page of proofs, a statement's id, arXiv:, or doi:"


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_say_what_they_must_and_no_more(package):
    assert not [fault for entry in documented(package) for fault in faults(*entry)]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_first_sentence_has_a_subject_of_its_own(package):
    begun = {}
    for path in (ROOT / package).rglob("*.py"):
        nodes = (node for _, node in definitions(ast.parse(path.read_text(encoding="utf-8")).body))
        texts = {f"{path.relative_to(ROOT)}:{node.lineno}": ast.get_docstring(node) or "" for node in nodes}
        begun |= {place: text[:60] for place, text in texts.items() if NO_SUBJECT.match(text)}
    assert not begun


@pytest.mark.parametrize("text, refused", [("Of the outputs.", True), ("That, of a vector.", True), ("Offset.", False)])
def test_a_missing_subject_is_seen(text, refused):
    assert bool(NO_SUBJECT.match(text)) == refused


@pytest.mark.parametrize(
    "source, fault",
    [
        ('"""One.\n\n    Args:\n        a: one.\n        b: one.\n    """', "that b is 2 by default"),
        ('"""One.\n\n    Args:\n        a: a number.\n    """', "does not explain b"),
        ('"""One.\n\n    Args:\n        a, b: numbers.\n    """', "several arguments in one line"),
        ('"""One.\n\n    Args:\n        a: one.\n        b: one.\n        c: one.\n    """', "has no argument c"),
        ('"""One.\n\n    Args:\n        a: one.\n        b: one.\n    """\n    raise ValueError', "what it raises"),
    ],
)
def test_a_fault_of_a_named_function_is_seen(source, fault):
    node = ast.parse(f"def f(a, b=2):\n    {source}\n").body[0]
    assert any(fault in message for message in faults("f", True, node))


@pytest.mark.parametrize(
    "head, text, fault",
    [
        ("-> np.ndarray", "The mean.", "the shape of what it returns"),
        ("-> dict[str, Tensor]", "The means.", "the shape of what it returns"),
        ("-> Estimate", "The mean.\n\n    Returns:\n        As the entries are.", "the shape of what it returns"),
        ("-> int", "The size.\n\n    Source: Gauss 1809, section 3.", "a source that a reader cannot open"),
    ],
)
def test_a_shape_and_a_source_are_asked_for(head, text, fault):
    node = ast.parse(f'def f() {head}:\n    """{text}"""').body[0]
    assert any(fault in message for message in faults("f", True, node))


@pytest.mark.parametrize(
    "head, text",
    [
        ("-> np.ndarray", "The mean, (n, C)."),
        ("-> Float[np.ndarray, ' n']", "The mean."),
        ("-> Estimate", "The mean, a number.\n\n    Source: fl-ntk/B.3."),
        ("-> Tensor", "The mean.\n\n    Returns: shape (n,).\n\n    Source: Gauss, arXiv:2105.05001."),
    ],
)
def test_a_shape_and_a_source_are_seen(head, text):
    node = ast.parse(f'def f() {head}:\n    """{text}"""').body[0]
    assert not list(faults("f", True, node))


def test_a_tuple_must_be_explained_and_a_list_without_a_page_is_too_much():
    node = ast.parse('def f(a) -> tuple[int, str]:\n    """One.\n\n    Args:\n        a: one.\n    """').body[0]
    assert [message.split(" ", 1)[1][:12] for message in faults("f", True, node)] == ["does not say"]
    assert [message.split(" ", 1)[1][:9] for message in faults("f", False, node)] == ["lists its"]


def test_the_pages_name_what_they_show():
    """The pages name functions, methods (inherited ones too), properties and methods of training.

    The pages name no private object.
    """
    assert {
        ("ntkfl.gram.limit", "infinite"),
        ("ntkfl.problem", "Problem.require_unit"),
        ("ntkfl.limit.infinite_width", "Regime.outputs"),
        ("ntkfl.training.methods.fed_prox", "method"),
    } <= named()
    assert not [name for _, name in named() if name.split(".")[-1].startswith("_")]


PROMPT = ">>> "
EXAMPLES = {
    place.split(": ")[1]: ast.get_docstring(node)
    for package in PACKAGES
    for place, is_named, node in documented(package, PROMPT)
    if is_named and PROMPT in ast.get_docstring(node)
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says(name):
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    said = []
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def test_a_newcomer_finds_thirty_examples():
    assert len(EXAMPLES) >= 30
