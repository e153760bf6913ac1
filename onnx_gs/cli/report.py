"""What a command tells: tables and a progress line for people, one JSON object for programs."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import Console

    from onnx_gs.passes.base import Entry, Report

ROWS = 20  # of a list that may be long
PROSE = frozenset({"why", "how", "what", "remedy"})  # headings of sentences, which may be folded; names may not
ROOM = 30  # columns that sentences need beside names
MOST_RULE = 100  # how long the line below headings is at most, where there is no width
COLUMN = 60  # how wide the widest cell makes a column, where it is not the last
NAME = 32  # how much of a name stands in a reason or a path
PLACE = 72  # how much of a path
REASON = 160  # how much of a reason
CUT = "…"
EVERYTHING = "--json has all"


class Session:
    """One run of a command: what it prints, and the JSON object that it builds.

    Text goes to standard output, or to standard error where standard output carries a model (``-o -``).

    Args:
        command: its name.
        options: the parsed options; ``json``, ``quiet``, ``model`` and ``output`` are looked at.
    """

    def __init__(self, command: str, options: argparse.Namespace) -> None:
        self.command = command
        self.json: bool = options.json
        self.quiet: bool = options.quiet
        self.fields: dict[str, Any] = {"command": command}
        if getattr(options, "model", None) is not None:
            self.fields["model"] = str(options.model)
        self._to_stderr = str(getattr(options, "output", None)) == "-"
        self._started = time.perf_counter()
        self._console: Console | None = None
        self._gap = False

    @property
    def console(self) -> Console:
        """The terminal, made on first use."""
        if self._console is None:
            from rich.console import Console

            class Piped(Console):
                """A console that says when its reader is gone, instead of ending the process with a status of its own."""

                def on_broken_pipe(self) -> None:
                    raise BrokenPipeError

            self._console = Piped(stderr=self._to_stderr, highlight=False, soft_wrap=False)
        return self._console

    def _print(self, what: Any, **options: Any) -> None:
        """Print; where the reader has seen enough, such as ``head``, nothing more is printed, and the work and its status go on."""
        try:
            self.console.print(what, **options)
        except BrokenPipeError:
            self.quiet = True
            leave_pipe()

    def put(self, **fields: Any) -> None:
        """Add fields to the JSON object."""
        self.fields.update(fields)

    def say(self, text: str = "", *, style: str | None = None) -> None:
        """Print a line for people."""
        if not self.json and not self.quiet:
            if self._gap and text and not text.startswith("  …"):  # a table ends with an empty line, unless something is said about its end
                self._print("")
            self._gap = self._gap and text.startswith("  …")
            self._print(text, style=style, markup=False, soft_wrap=not self.console.is_terminal)  # a line of a file or pipe stays one

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, limit: int | None = None, more: str = "") -> None:
        """Print a table for people; numbers stand to the right, and no name is broken.

        Args:
            title: what it shows.
            columns: headings; one that starts with ``>`` is for numbers. Columns that may be wide, such as names, are best last.
            rows: cells, turned into text.
            limit: how many rows to show before "and N more".
            more: how to see these.
        """
        if self.json or self.quiet:
            return
        cells = [[str(cell) for cell in row] for row in rows]
        shown = cells if limit is None else cells[:limit]
        self.say(title, style="bold")
        for line, style in () if not shown else _laid_out(columns, shown, self.console.width if self.console.is_terminal else None):
            if not self.quiet:
                self._print(line, style=style, markup=False, soft_wrap=True)  # names stay whole, for search and copy
        if len(cells) > len(shown):
            self.say(f"  … and {len(cells) - len(shown):,} more" + (f" ({more})" if more else ""))
        self._gap = True

    @contextmanager
    def progress(self, label: str, detail: Callable[[], str] | None = None) -> Iterator[None]:
        """Show a moving line on standard error while the work inside takes long; nothing where that is no terminal.

        Args:
            label: what is being done.
            detail: asked again and again for more to show, such as the current pass.
        """
        if self.json or self.quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        started = time.perf_counter()
        spinner = Spinner("dots")

        def shown() -> Spinner | Text:
            passed = time.perf_counter() - started
            if passed < 0.5:  # quick work shows nothing
                return Text("")
            more = f" · {detail()}" if detail is not None and detail() else ""
            spinner.update(text=Text(f"{label}{more} · {passed:.0f} s"))
            return spinner

        with Live(get_renderable=shown, console=Console(stderr=True), transient=True, refresh_per_second=8):
            yield

    def put_report(self, report: Report) -> None:
        """Add to the JSON object what passes rewrote and declined."""
        self.put(
            rewritten=[entry.as_dict() for entry in report.rewritten],
            declined=[entry.as_dict() for entry in report.declined],
            left=[entry.as_dict() for entry in report.left],
            warnings=list(report.warnings),
        )

    def show_report(self, report: Report) -> None:
        """Print what passes rewrote and declined."""
        if report.rewritten:
            self.table("Rewritten", [">times", "pass", "what"], _summary(report.rewritten), limit=ROWS)
        told: dict[str, str] = {}
        for entry in report.left:
            told[entry.path] = f"{told.get(entry.path, '')}; {entry.reason}"
        declined = [entry for entry in report.declined if entry.reason not in told.get(entry.path, "")]  # what is left over says it again
        self.reasons("Declined", ["pass", "node", "why"], [(entry.pass_name, entry.path, entry.reason) for entry in declined])
        self.reasons("Left over", ["node", "why"], [(entry.path, reason) for entry in report.left for reason in entry.reason.split("; ")])
        for warning in report.warnings:
            self.say(f"warning: {warning}", style="yellow")

    def reasons(self, title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
        """Print what holds nodes back, each reason once; nothing where there are no rows.

        Args:
            title: what it shows.
            columns: headings.
            rows: cells, of which the last two are the path of a node and the reason.
        """
        cells = _alike(rows)
        if cells:
            self.table(title, columns, cells, limit=ROWS, more=EVERYTHING)
            if any(CUT in cell for row in cells[:ROWS] for cell in row[-2:]):
                self.say(f"  {CUT} stands for what was left out ({EVERYTHING})")

    def finish(self, status: int) -> int:
        """Print the JSON object where it is asked for, and pass the status on."""
        if self.json:
            self.fields["seconds"] = round(time.perf_counter() - self._started, 3)
            out = sys.stderr if self._to_stderr else sys.stdout
            try:
                json.dump(self.fields, out, default=str)
                out.write("\n")
                out.flush()
            except BrokenPipeError:
                leave_pipe()
        return status


def leave_pipe() -> None:
    """Send what is still to be written to nowhere: the interpreter writes it when it ends."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - it stays open to the end


def _laid_out(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> Iterator[tuple[str, str | None]]:
    """Give the lines of a table, each with its style.

    Nothing is broken or cut where there is no width, in a file or pipe. On a terminal, sentences are folded: in their column where it is the last
    and there is room, else below the row.
    """
    from rich.cells import cell_len

    headings = [column.lstrip(">") for column in columns]
    right = [column.startswith(">") for column in columns]
    widest = [max(map(cell_len, (heading, *(row[k] for row in rows)))) for k, heading in enumerate(headings)]
    wide = [w if k == len(widest) - 1 or right[k] else min(w, COLUMN) for k, w in enumerate(widest)]  # a longer cell moves what follows in its row
    prose = [k for k, heading in enumerate(headings) if heading in PROSE]
    below: list[int] = []
    if width is not None and prose and sum(widest) + 3 * len(widest) > width:
        before = sum(w + 3 for w in widest[:-1]) + 1
        if prose == [len(wide) - 1] and width - before >= ROOM:
            wide = [*widest[:-1], width - before]
        else:
            below = prose
    beside = [k for k in range(len(wide)) if k not in below]

    def line(cells: Sequence[str]) -> str:
        padded = [" " * (wide[k] - cell_len(cells[k])) for k in range(len(wide))]
        return " " + "   ".join(padded[k] + cells[k] if right[k] else cells[k] + padded[k] for k in beside).rstrip()

    yield line(headings), "bold"
    yield " " + "─" * min(sum(wide[k] + 3 for k in beside) - 3, MOST_RULE if width is None else width - 1), None
    for row in rows:
        parts = textwrap.wrap(row[-1], wide[-1], break_on_hyphens=False) or [""] if width is not None and not below and prose else [row[-1]]
        yield line([*row[:-1], parts[0]]), None
        for part in parts[1:]:
            yield line([*([""] * (len(row) - 1)), part]), None
        for k in below:
            label = f"     {headings[k]}: "
            yield from ((text, None) for text in textwrap.wrap(row[k], width, initial_indent=label, subsequent_indent=" " * 7) if row[k])  # type: ignore[arg-type]


def _summary(entries: Iterable[Entry]) -> list[tuple[str, str, str]]:
    """Count rewrites by pass and operator."""
    counts: dict[tuple[str, str], int] = {}
    for entry in entries:
        counts[entry.pass_name, entry.op] = counts.get((entry.pass_name, entry.op), 0) + 1
    by_pass: dict[str, list[tuple[str, int]]] = {}
    for (name, op), count in counts.items():
        by_pass.setdefault(name, []).append((op, count))
    rows = []
    for name, ops in by_pass.items():
        ops.sort(key=lambda pair: -pair[1])
        shown = ", ".join(f"{op} × {count}" if count > 1 else op for op, count in ops[:6]) + (", …" if len(ops) > 6 else "")
        rows.append((f"{sum(count for _, count in ops):,}", name, shown))
    return rows


def _alike(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """List reasons, names and numbers aside, each once with the first node that it holds back and how many more there are."""
    kinds: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for row in rows:
        kinds.setdefault((*row[:-2], re.sub(r"'[^']*'|\d+", "", row[-1])), []).append(row)
    told = []
    for alike in kinds.values():
        *before, path, reason = alike[0]
        others = len({row[-2] for row in alike}) - 1
        told.append((*before, place(path) + (f" and {others:,} more" if others else ""), shortened(reason)))
    return told


def place(path: str) -> str:
    """Spell the path of a node for a table: as ``extract --nodes`` takes it, and long names and ways by their ends.

    Example:
        >>> place("graph 'main' > node 'Loop_3' (Loop) > body > node #17 (Add)")
        'Loop_3 > body > #17 (Add)'
        >>> place("graph 'main' > node '/encoder/layers/layers.17/attention/output/MatMul' (MatMul)")
        '…yers.17/attention/output/MatMul (MatMul)'
    """
    steps = path.split(" > ")
    if len(steps) > 1 and steps[0].startswith("graph "):
        del steps[0]
    spelled = []
    for step in steps:
        found = re.fullmatch(r"node (?:'(.*)'|(#\S+)) (\(.*\))", step)
        name = step if found is None else found[1] or found[2]
        spelled.append(_end(name) + (f" {found[3]}" if found is not None and step is steps[-1] else ""))
    while len(" > ".join(spelled)) > PLACE and len(spelled) > 1 + (spelled[0] == CUT):
        spelled[: 1 + (spelled[0] == CUT)] = [CUT]
    return " > ".join(spelled)


def shortened(reason: str) -> str:
    """Spell a reason for a table: long names by their ends, and no more than fits a line or two.

    Example:
        >>> shortened("output '/encoder/layers/layers.17/attention/output/MatMul' is no tensor")
        "output '…yers.17/attention/output/MatMul' is no tensor"
    """
    text = re.sub(r"'([^']*)'", lambda found: f"'{_end(found[1])}'", reason)
    return text if len(text) <= REASON else text[: REASON - 1].rstrip() + CUT


def _end(name: str) -> str:
    return name if len(name) <= NAME else CUT + name[1 - NAME :]


def counted(count: int, what: str) -> str:
    """Spell a number of things.

    Example:
        >>> counted(1, "node"), counted(2000, "node")
        ('1 node', '2,000 nodes')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def size(count: float) -> str:
    """Spell a number of bytes.

    Example:
        >>> size(512), size(86_864), size(2_950_000_000)
        ('512 B', '86.9 kB', '2.95 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
