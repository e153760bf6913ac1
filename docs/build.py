"""Build the documentation: the pages of this folder and an API reference made from the docstrings, as plain HTML.

    python -m docs.build [--output build/site]

The build fails where a public name has no docstring, where a page of the reference is missing, or where a link leads nowhere. A page of this folder
names a page of the reference by its title, *in italics*, which becomes a link here; in the repository there is nothing to link to.
"""

from __future__ import annotations

import argparse
import ast
import functools
import html
import importlib
import inspect
import posixpath
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent

#: One page each, in this order.
CLASSES = [
    "Graph", "Node", "Tensor", "Variable", "Constant", "LazyValues", "SparseValues", "Function", "SynchronizedList", "GraphPattern", "PatternMapping",
]  # fmt: skip
ASSETS = {".svg", ".png", ".tsv"}  #: files that stand beside the pages
SECTIONS = ("Args", "Returns", "Yields", "Raises", "Attributes", "Example", "Spec")

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: #2563eb; }
@media (prefers-color-scheme: dark) { :root { --link: #8ab4ff; } }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; display: grid; grid-template-columns: 15rem minmax(0, 52rem); gap: 2.5rem; }
nav { padding: 1.5rem; border-right: 1px solid var(--line); min-height: 100vh; font-size: .92rem; }
nav h2 { font-size: .8rem; text-transform: uppercase; letter-spacing: .06em; margin: 1.4rem 0 .3rem; opacity: .7; }
nav a { display: block; padding: .12rem 0; }
main { padding: 1.5rem 1.5rem 4rem 0; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
pre { background: var(--soft); padding: .8rem 1rem; overflow-x: auto; border-radius: 6px; line-height: 1.4; }
code { font: .9em ui-monospace, monospace; } :not(pre) > code { background: var(--soft); padding: .1em .3em; border-radius: 4px; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
.member { border-top: 1px solid var(--line); margin-top: 1.6rem; padding-top: .4rem; } .member h3 { font: 600 1rem ui-monospace, monospace; }
img { max-width: 100%; background: #fff; border-radius: 6px; }
@media (max-width: 50rem) { body { display: block; padding: 1rem; } nav { min-height: 0; border: 0; } }
"""


# -- docstrings -----------------------------------------------------------------------------------


def rendered(docstring: str) -> str:
    """Turn a docstring in our style into Markdown: sections become headings, their entries lists, ``::`` blocks code."""
    lines = inspect.cleandoc(docstring).splitlines()
    out: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        match = re.fullmatch(rf"({'|'.join(SECTIONS)}):\s*(.*)", line)
        if match and (match[2] or index + 1 == len(lines) or lines[index + 1].startswith((" ", ""))):
            body, index = indented(lines, index + 1)
            out += ["", f"**{match[1].replace('Args', 'Arguments')}**" + (f": {match[2]}" if match[2] else ""), ""]
            out += code(body) if match[1] == "Example" else entries(body) if match[1] in {"Args", "Attributes", "Raises"} else body
            out.append("")
        elif line.rstrip().endswith("::"):
            body, index = indented(lines, index + 1)
            out += [line.rstrip().removesuffix(":"), "", "```text", *body, "```", ""]
        elif line.startswith(">>> "):
            end = index
            while end < len(lines) and lines[end].strip():
                end += 1
            out += ["", "```python", *lines[index:end], "```", ""]
            index = end
        else:
            out.append(line)
            index += 1
    return "\n".join(out)


def indented(lines: list[str], start: int) -> tuple[list[str], int]:
    """Give the indented lines from ``start`` on, with the indentation taken off, and where they end."""
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
        end += 1
    return inspect.cleandoc("\n".join(["", *lines[start:end]])).splitlines(), end


def code(body: list[str]) -> list[str]:
    """Fence an example."""
    return ["```python", *body, "```"]


def entries(body: list[str]) -> list[str]:
    """Turn ``name: what it is`` lines, continued by indentation, into a list."""
    out: list[str] = []
    for line in body:
        match = re.match(r"([\w*.]+(?: \([^)]*\))?):\s+(.*)", line)
        if match and not line.startswith(" "):
            out.append(f"- `{match[1]}`: {match[2]}")
        elif out:
            out[-1] += " " + line.strip()
        else:
            out.append(line)
    return out


# -- the reference --------------------------------------------------------------------------------


@dataclass
class Problems:
    """What is wrong with the documentation; the build fails if anything is."""

    found: list[str] = field(default_factory=list)

    def docstring(self, thing: Any, name: str) -> str:
        """Give a docstring as Markdown, or note that it is missing."""
        text = thing.__doc__
        if not text or not text.strip():
            self.found.append(f"{name} has no docstring")
            return ""
        return rendered(text)


def signature(thing: Any, *, method: bool = False) -> str:
    """Spell a signature without defaults' addresses and without ``self``."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(found.parameters.values())
    if method and parameters and parameters[0].name in {"self", "cls"}:
        parameters = parameters[1:]
    text = str(found.replace(parameters=parameters))
    text = re.sub(r"<object object at 0x[0-9a-f]+>", "...", text)
    return text.replace("'", "") if "->" in text or ":" in text else text


def class_page(name: str, kind: type, problems: Problems) -> str:
    """Make the page of a class: its docstring, then its public members, inherited ones of ours included."""
    bases = [base.__name__ for base in kind.__mro__[1:] if base.__module__.startswith("onnx_gs")]
    parts = [f"# {name}", "", f"`onnx_gs.{name}{signature(kind)}`", ""]
    if bases:
        parts += [f"Bases: {', '.join(f'`{base}`' for base in bases)}", ""]
    parts += [problems.docstring(kind, name), "", "## Members", ""]
    for member, value, owner in members(kind):
        parts += member_section(name, member, value, owner, problems)
    return "\n".join(parts)


def members(kind: type) -> list[tuple[str, Any, type]]:
    """List the public members of a class that this package defines, by name, with the class that defines each."""
    found: dict[str, tuple[Any, type]] = {}
    for owner in kind.__mro__:
        if not owner.__module__.startswith("onnx_gs"):
            continue
        for name, value in vars(owner).items():
            shown = callable(value) or isinstance(value, (property, staticmethod, classmethod)) or hasattr(value, "__wrapped__")
            if shown and not name.startswith("_"):
                found.setdefault(name, (value, owner))
    return [(name, value, owner) for name, (value, owner) in sorted(found.items())]


def member_section(owner_name: str, name: str, value: Any, owner: type, problems: Problems) -> list[str]:
    """Make the section about a method or property."""
    if isinstance(value, (property, functools.cached_property)):
        title = name + ("" if getattr(value, "fset", None) is not None else "  (read-only)")
        thing: Any = value
    elif isinstance(value, type):
        title, thing = f"{name}{signature(value)}", value
    else:
        function = inspect.unwrap(getattr(value, "__func__", value))
        kind = "static " if isinstance(value, staticmethod) else "class " if isinstance(value, classmethod) else ""
        title, thing = f"{kind}{name}{signature(function, method=not isinstance(value, staticmethod))}", function
    text = problems.docstring(thing, f"{owner_name}.{name}")
    origin = "" if owner.__name__ == owner_name else f"\n\nFrom `{owner.__name__}`."
    return [f'<div class="member" id="{name}">', "", f"### {html.escape(title, quote=False)}", "", text + origin, "", "</div>", ""]


def functions_page(package: Any, problems: Problems) -> str:
    """Make the page of the top-level functions."""
    parts = ["# Functions", ""]
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isfunction(value):
            parts += [f'<div class="member" id="{name}">', "", f"### {name}{signature(value)}", "", problems.docstring(value, name), "", "</div>", ""]
    return "\n".join(parts)


def errors_page(problems: Problems) -> str:
    """Make the page of the errors."""
    module = importlib.import_module("onnx_gs.errors")
    parts = ["# Errors", ""]
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__name__ == name:
            bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
            text = problems.docstring(value, name)
            parts += [f'<div class="member" id="{name}">', "", f"### {name}", "", f"Bases: {bases}", "", text, "", "</div>", ""]
    return "\n".join(parts)


def passes_page(problems: Problems) -> str:
    """Make the page of the passes, in the order of the catalogue."""
    catalogue = importlib.import_module("onnx_gs.passes.catalogue")
    parts = ["# Passes", "", "Each is a frozen dataclass; its fields are its options, in Python and on the command line.", ""]
    for kind in sorted(pass_classes(catalogue), key=lambda kind: kind.name):
        name = kind.__name__
        head = f"`onnx_gs.passes`: `{name}{signature(kind)}`"
        parts += [f'<div class="member" id="{kind.name}">', "", f"### {kind.name}", "", head, "", problems.docstring(kind, name), "", "</div>", ""]
    return "\n".join(parts)


def pass_classes(catalogue: Any) -> list[Any]:
    """Give the passes that the catalogue lists, as classes."""
    base = importlib.import_module("onnx_gs.passes.base").Pass
    found: dict[int, Any] = {}
    for value in vars(catalogue).values():
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ():
            kind = item if inspect.isclass(item) else type(item)
            if issubclass(kind, base) and kind is not base:
                found.setdefault(id(kind), kind)
    return list(found.values())


def commands_page() -> str:
    """Make the page of the command line's options, from the parsers themselves."""
    main = importlib.import_module("onnx_gs.cli.main")
    parts = ["# Commands and their options", "", "[What each is for, with examples](../cli.md).", ""]
    for name in main.COMMANDS:
        parser = main.parser_of(name)
        parts += [f"## onnx-gs {name}", "", "```text", parser.format_help().rstrip(), "```", ""]
    return "\n".join(parts)


def modules_page(problems: Problems) -> str:
    """Make the page of the modules, layer by layer: the one concept of each, which is the first line of its docstring."""
    folder = ROOT / "onnx_gs"
    layers: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py"), key=lambda path: (len(path.relative_to(folder).parts), path)):
        name = path.relative_to(folder).as_posix()
        concept = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
        if not concept:
            problems.found.append(f"onnx_gs/{name} has no docstring")
        layers.setdefault(name.partition("/")[0] if "/" in name else "", []).append(f"- `{name}`: {concept}")
    parts = ["# Modules", "", "[How they hang together](../architecture.md).", ""]
    for layer, lines in layers.items():
        parts += [f"## {layer or 'The front door'}", "", *lines, ""]
    return "\n".join(parts)


def reference(problems: Problems) -> dict[str, str]:
    """Give the reference's pages, by path, as Markdown."""
    package = importlib.import_module("onnx_gs")
    pages = {f"api/{name}.md": class_page(name, getattr(package, name), problems) for name in CLASSES}
    pages["api/functions.md"] = functions_page(package, problems)
    pages["api/errors.md"] = errors_page(problems)
    pages["api/passes.md"] = passes_page(problems)
    pages["api/commands.md"] = commands_page()
    pages["api/modules.md"] = modules_page(problems)
    listed = "\n".join(f"- [{Path(path).stem}]({path.removeprefix('api/')})" for path in pages)
    pages["api/index.md"] = f"# API reference\n\nMade from the docstrings.\n\n{listed}\n"
    return pages


# -- the site -------------------------------------------------------------------------------------


def written_pages() -> dict[str, str]:
    """Give the pages of this folder, the README as the start page, and the examples."""
    pages = {path.relative_to(ROOT / "docs").as_posix(): path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))}
    pages["index.md"] = moved(ROOT / "README.md", "")
    for readme in sorted((ROOT / "examples").glob("[0-9]*/README.md")):
        script = next(readme.parent.glob("*.py"))
        text = f"{moved(readme, 'examples/')}\n\n`{script.relative_to(ROOT)}`:\n\n```python\n{script.read_text(encoding='utf-8')}```\n"
        pages[f"examples/{readme.parent.name}.md"] = text
    return pages


def moved(path: Path, folder: str) -> str:
    """Give a page's text with its links turned to where things are on the site."""

    def turn(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or target.startswith("#"):
            return match[0]
        resolved = posixpath.normpath(posixpath.join(path.parent.relative_to(ROOT).as_posix(), target))
        if resolved.startswith("docs/"):
            resolved = resolved.removeprefix("docs/")
        elif re.fullmatch(r"examples/\d+_\w+(/README\.md)?", resolved):
            resolved = resolved.removesuffix("/README.md") + ".md"
        else:
            return match[1]  # a file of the repository that is not on the site: its name stays
        return f"[{match[1]}]({posixpath.relpath(resolved, folder or '.')})"

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", turn, path.read_text(encoding="utf-8"))


def title(text: str, path: str) -> str:
    """Give a page's first heading."""
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return match[1].strip("`") if match else path


def navigation(pages: dict[str, str], here: str) -> str:
    """Make the list of all pages."""
    groups = {"Guide": [], "Examples": [], "Reference": []}  # type: dict[str, list[str]]
    for path in pages:
        groups["Reference" if path.startswith("api/") else "Examples" if path.startswith("examples/") else "Guide"].append(path)
    groups["Guide"].sort(key=lambda path: (path != "index.md", path))
    out = []
    for name, paths in groups.items():
        out.append(f"<h2>{name}</h2>")
        for path in paths:
            target = posixpath.relpath(path.removesuffix(".md") + ".html", posixpath.dirname(here) or ".")
            out.append(f'<a href="{target}">{html.escape(title(pages[path], path))}</a>')
    return "\n".join(out)


def build(output: Path) -> list[str]:
    """Write the site; give what is wrong with it."""
    problems = Problems()
    pages = {**written_pages(), **reference(problems)}
    missing = [name for name in CLASSES if f"api/{name}.md" not in pages]
    problems.found += [f"the page of {name} is missing" for name in missing]
    markdown = MarkdownIt("commonmark").enable("table")
    made = {html.escape(title(text, path)): path for path, text in pages.items() if path.startswith("api/")}
    for path, text in pages.items():
        body = linked(markdown.render(text), path, made)
        problems.found += broken_links(path, body, pages)
        body = re.sub(r'href="([^":]+)\.md(#[^"]*)?"', r'href="\1.html\2"', body)
        target = output / (path.removesuffix(".md") + ".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title(text, path))} · onnx_gs</title>'
        page = f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head>"
        page += f"<body><nav><strong>onnx_gs</strong>{navigation(pages, path)}</nav><main>{body}</main></body></html>\n"
        target.write_text(page, encoding="utf-8")
    for asset in (ROOT / "docs").rglob("*"):
        if asset.suffix in ASSETS:
            target = output / asset.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(asset.read_bytes())
    return problems.found


def linked(body: str, path: str, made: dict[str, str]) -> str:
    """Turn titles of the reference's pages in italics into links to them."""

    def turn(match: re.Match[str]) -> str:
        target = made.get(match[1])
        return match[0] if target is None else f'<a href="{posixpath.relpath(target, posixpath.dirname(path) or ".")}">{match[1]}</a>'

    return re.sub(r"<em>([^<]+)</em>", turn, body)


def broken_links(path: str, body: str, pages: dict[str, str]) -> list[str]:
    """List the links of a page that lead nowhere on the site."""
    found = []
    for target in re.findall(r'(?:href|src)="([^"#]+)', body):
        if "://" in target or target.startswith("mailto:"):
            continue
        resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        asset = ROOT / "docs" / resolved
        if resolved not in pages and not (asset.suffix in ASSETS and asset.is_file()):
            found.append(f"{path}: link to {target} leads nowhere")
    return found


def main() -> int:
    """Build, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    output = parser.parse_args().output
    problems = build(output)
    for problem in problems:
        print(f"docs: {problem}", file=sys.stderr)
    print(f"{len(list(output.rglob('*.html')))} pages in {output}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
