"""A reduced system as source code that stands alone, in the languages of the directory ``languages``."""

from __future__ import annotations

import functools
import itertools
import math
import re
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple

import numpy as np

from dae_sdc import __version__
from dae_sdc.expressions.dag import Leaf, Op
from dae_sdc.expressions.graph import Input
from dae_sdc.expressions.source import Language, Writer, parts_to_name
from dae_sdc.model.problem import jacobian_outputs
from dae_sdc.reduction.problem import Assembled
from dae_sdc.reduction.separate import Separated

_DIRECTORY: Final = Path(__file__).parent / "languages"
LANGUAGES: Final = tuple(sorted((path.stem for path in _DIRECTORY.glob("*.toml")), reverse=True))
WIDTH: Final = 104  # Columns of the code.
_FORMS: Final = {
    "implicit": "F(t, u, u') = E(t, u) u' - g(t, u) and the algebraic equations, which vanish",
    "semi-explicit": "x' = f(t, x, z), 0 = a(t, x, z), u = (x, z)",
    "explicit": "x' = f(t, x), z = phi(t, x), u = (x, z)",
    "ode": "x' = f(t, x), u = x",
    "stages": "F(t, u, u'), the equations of all stages with dummy derivatives, which vanish",
}
_CHOSEN: Final = {
    True: "The pivots suit the start values, and other points where none of 'pivots' is below 0.1.",
    False: "The dummy derivatives suit the start values; elsewhere others may have to be chosen.",
}
_CALL: Final = re.compile(r"(\w+)\(")


@functools.cache
def language(name: str) -> dict[str, Any]:
    """How code is written in a language, as its file says."""
    settings = tomllib.loads((_DIRECTORY / f"{name}.toml").read_text(encoding="utf-8"))
    return language(settings["like"]) | settings if "like" in settings else settings


class Entry(NamedTuple):
    """A number that a routine computes: its place in the result, its node, and what it is."""

    place: int
    node: int
    remark: str = ""


class Routine(NamedTuple):
    """A function of the code."""

    name: str
    about: str  # What it gives.
    arguments: str  # Of t, u, du and c, in this order.
    shape: tuple[int, ...]  # Of the result.
    entries: list[Entry]  # The numbers of the result that are not always 0.
    solved: dict[int, int] = {}  # Nodes for unknowns that are calculated and not read, by their places in u.


def routines_of(reduction: Any, assembled: Assembled) -> list[Routine]:
    """The functions of a form."""
    form, graph, goal, system = assembled.form, assembled.graph, reduction.goal, reduction.system
    n, n_diff, rows, held = len(form.states), form.n_diff, assembled.rows, assembled.held

    def vector(
        name: str, about: str, nodes: Sequence[int], remarks: Sequence[str], of: str = "t u"
    ) -> Routine:
        entries = list(map(Entry, range(len(nodes)), nodes, remarks))
        return Routine(name, about, of, (len(nodes),), entries)

    def matrix(
        name: str, about: str, rows: Sequence[int], of: str = "t u", factor: int = graph.one
    ) -> Routine:
        outputs = jacobian_outputs(graph, rows, assembled.layout.given, n, True, factor, len(rows))[1]
        places = enumerate(assembled.layout.written(graph, outputs))
        entries = [Entry(place, node) for place, node in places if node != graph.zero]
        return Routine(name, about, of, (len(rows), n), entries)

    routines: list[Routine] = []
    if isinstance(system, Separated) and goal != "implicit":
        equations = system.equations(goal, reduction.names)
        right = {jet: node for _, left, node in equations for jet in left}
        tops = [right.get((j, k + 1), graph.variable(j, k + 1)) for j, k in form.states[:n_diff]]
        rates = vector("rates", "The derivatives x'", tops, form.names)
        if system.solved:
            solved = {at: right[jet] for at, jet in enumerate(form.states) if at >= n_diff}
            routines.append(rates._replace(about="The derivatives x', of u = x", solved=solved))
            about, names = "The unknowns z, of u = x", form.names[n_diff:]
            routines.append(vector("algebraic", about, list(solved.values()), names))
        elif n_diff < n:
            about, names = "The equations a, which vanish", form.equation_names[n_diff:]
            routines += [rates, vector("constraints", about, rows[n_diff:], names)]
            about = "The derivatives of the equations a by u"
            routines.append(matrix("constraints_jacobian", about, rows[n_diff:]))
        else:
            routines.append(rates)
    else:
        names, factor = form.equation_names, graph.leaf(Leaf("c"))
        routines.append(vector("residual", "The equations F, which vanish", rows, names, "t u du"))
        routines.append(matrix("jacobian", "The matrix dF/du' + c dF/du", rows, "t u du c", factor))
    if held:
        about = "All constraints, hidden ones too, which vanish along solutions"
        routines.append(vector("invariants", about, held, assembled.invariant_names))
        routines.append(matrix("invariants_jacobian", "The derivatives of the invariants by u", held))
    if assembled.rivals:
        about = "Sizes of the pivots, relative to the largest entries beside them"
        nodes = assembled.layout.written(graph, _relative_pivots(assembled))
        routines.append(vector("pivots", about, nodes, [""] * len(nodes)))
    return routines


def _relative_pivots(assembled: Assembled) -> list[int]:
    """Nodes of the sizes of pivots, relative to their largest rivals; 1 where these vanish."""
    graph = assembled.graph
    sizes = [graph.call(Op.ABS, node) for node in assembled.watched_nodes]
    nodes = []
    for pivot, part in zip(sizes, assembled.rivals, strict=False):
        largest = functools.reduce(functools.partial(graph.call, Op.MAX), sizes[part])
        some = graph.call(Op.LT, graph.zero, largest)
        nodes.append(graph.call(Op.SELECT, some, graph.div(pivot, largest), graph.one))
    return nodes


class Code:
    """A reduced system in a language."""

    # The reduction is a :class:`~dae_sdc.reduction.reduction.Reduction`, whose file imports this one.
    def __init__(self, reduction: Any, name: str) -> None:
        self.reduction, self.assembled, self.language = reduction, reduction.assembled(), language(name)
        problem, graph, form = reduction.problem(), self.assembled.graph, self.assembled.form
        self.start = np.nan_to_num(problem.start_values).tolist()
        if self.assembled.choices:
            problem.start_step(problem.state(self.start), float(reduction.interval[0]))
        self.values = {name: float(value) for name, value in problem.values.items()}
        weights = np.asarray(problem.kernel_parameters()).tolist()[len(self.values) :]
        places = itertools.count(len(self.values))
        self.weights = {graph.parameter(next(places)): graph.constant(weight) for weight in weights}
        self.routines = routines_of(reduction, self.assembled)
        texts = [self.language["routine"], self.language["projection"], *self.language["helpers"]]
        # Parameters are names in the projection where they are no structure.
        read = " ".join([self.language["reserved"], *texts[: 1 if self.language["structure"] else 2]])
        words = {*re.findall(r"\w+", read), *_CALL.findall(" ".join(texts)), *map(str.lower, Op.__members__)}
        words |= {routine.name for routine in self.routines}
        self.model = _identifiers([reduction.name], words)[reduction.name]
        self.names = _identifiers([*form.names, *self.values], words)

    def text(self) -> str:
        """The whole code."""
        settings = self.language
        values = {self.names[name]: repr(value) for name, value in self.values.items()}
        about = {
            **{"imports": settings["imports"], "model": self.model, "header": "\n".join(self.header())},
            **{"K": str(len(self.assembled.held)), "N": str(len(self.start)), "structure": ""},
            "start": ", ".join(map(repr, self.start)),
            "words": ", ".join(values),
            "fields": ", ".join(f".{word} = {value}" for word, value in values.items()),
            "parameters": "".join(f", {word}={value}" for word, value in values.items()),
            "passed": "".join(f", {word}" for word in values),
        }

        def filled(text: str, **others: str) -> str:
            return Template(text).substitute(about, **others)

        if settings["structure"] and values:
            about |= {"parameters": f", {filled(settings['declared']['p'])}", "passed": ", par"}
            about["structure"] = filled(settings["structure"])
        functions = [filled(settings["routine"], **self.function(routine)) for routine in self.routines]
        functions += [filled(settings["projection"])] if self.assembled.held else []
        called = set(_CALL.findall("\n".join(functions)))
        used = [filled(helper) for helper in settings["helpers"] if _CALL.findall(helper)[0] in called]
        parts = [filled(settings["head"]), *(settings["decorator"] + part for part in (*used, *functions))]
        return "\n".join(map(_in_lines, "\n\n\n".join(parts).splitlines())) + "\n"

    def header(self) -> list[str]:
        """What the code is, and how it is called."""
        reduction, form = self.reduction, self.assembled.form
        more, width = ", ..." if self.values else "", max(map(len, self.names.values()))
        lines = [
            f"{reduction.name}: {reduction.title or 'a model'}, reduced to index {reduction.index} by "
            f"{reduction.method}",
            *("", f"  {reduction.goal} form: {_FORMS[reduction.goal]}", ""),
            f"Unknowns u, the first {form.n_diff} of them differential: place, name in the code, name",
        ]
        for at, (name, unit) in enumerate(zip(form.names, form.units, strict=True)):
            lines.append(f"  {at:3}  {self.names[name]:{width}}  {name}{f' [{unit}]' if unit else ''}")
        lines += ["", "Parameters: name in the code, name and value"] if self.values else []
        for name, value in self.values.items():
            unit = reduction.parameters_by_name[name].unit
            lines.append(
                f"       {self.names[name]:{width}}  {name} = {value!r}{f' [{unit}]' if unit else ''}"
            )
        lines += ["", "Functions"]
        for routine in self.routines:
            arguments = ", ".join(routine.arguments.split())
            lines.append(f"  {routine.name}({arguments}{more}): {routine.about}")
        if self.assembled.held:
            lines.append(f"  project(t, u{more}): The point near u at which the invariants vanish")
        needs = Template(self.language["needs"]).substitute(model=self.model)
        events = "Events of the model are not in it. " if getattr(reduction.source, "events", ()) else ""
        chosen = _CHOSEN[isinstance(reduction.system, Separated)]
        about = f"{chosen} {events}{needs} Written by dae_sdc {__version__}."
        return [*map(_plain, lines), "", *textwrap.wrap(about, WIDTH)]

    def function(self, routine: Routine) -> dict[str, str]:
        """The texts of a routine, by their names in its template."""
        declared = self.language["declared"]
        return {
            **{"name": routine.name, "about": routine.about, "size": str(math.prod(routine.shape))},
            "shape": str(routine.shape if len(routine.shape) > 1 else routine.shape[0]),
            "arguments": ", ".join(declared.get(name, name) for name in routine.arguments.split()),
            "body": "\n".join(self.body(routine)),
        }

    def body(self, routine: Routine) -> list[str]:
        """The lines of a routine: unknowns, veils and shared parts, and results."""
        graph, form, settings = self.assembled.graph, self.assembled.form, self.language
        nodes = graph.substitute([entry.node for entry in routine.entries], self.weights)
        read = self._read(nodes)
        solved = {at: node for at, node in routine.solved.items() if Input("u", at) in read}
        read = (read | self._read(solved.values())) - {Input("u", at) for at in solved}
        kinds = {"par" if source.kind == "p" else source.kind for source in read}
        arguments = [*routine.arguments.split(), *(["par"] if self.values else [])]
        idle = [name for name in arguments if name not in kinds] if settings["idle"] else []
        lines = [settings["idle"].format(name) for name in idle]
        places = sorted(source.index for source in read if source.kind == "u")
        lines += (
            line
            for at in places
            for line in self._variable(self.names[form.names[at]], f"u[{at}]", form.units[at])
        )
        writer = Writer(graph, self._name, Language(settings["calls"], settings["power"]))
        veils = {node: f"v{number}" for number, node in enumerate(self.reduction.veils)}
        shared = (f"s{number}" for number in itertools.count())
        parts = parts_to_name(graph, [*solved.values(), *nodes], veils)
        before = set(graph.below(solved.values()))
        for first in (True, False):
            for node in parts:
                if (node in before) is first:
                    name = veils.get(node) or next(shared)
                    lines += self._variable(name, writer.text(node))
                    writer.call(node, name)
            for at, node in solved.items() if first else ():
                lines += self._variable(self.names[form.names[at]], writer.text(node), form.units[at])
        element = settings["element" if len(routine.shape) == 1 else "element_of_matrix"]
        for entry, node in zip(routine.entries, nodes, strict=True):
            place = (*divmod(entry.place, routine.shape[-1]), routine.shape[-1])
            left = element.format(*(place if len(routine.shape) > 1 else place[1:]))
            lines += self._statement(left, writer.text(node), entry.remark)
        return lines

    def _variable(self, name: str, text: str, unit: str = "") -> list[str]:
        return self._statement(self.language["variable"].format(name), text, unit)

    def _statement(self, left: str, text: str, remark: str = "") -> list[str]:
        """An assignment with a remark, which stands before it where it is long."""
        behind = self.language["remark"].format(_plain(remark)) if remark else ""
        line = f"    {self.language['statement'].format(left, text)}"
        if len(line) + len(behind) + 2 <= WIDTH:
            return [f"{line}  {behind}".rstrip()]
        return [*([f"    {behind}"] if behind else []), f"    {self.language['broken'].format(left, text)}"]

    def _read(self, nodes: Iterable[int]) -> set[Input]:
        """What expressions are calculated from."""
        return set(map(self.assembled.layout.given, self.assembled.graph.leaves_of(*nodes)))

    def _name(self, leaf: Leaf) -> str:
        source = self.assembled.layout.given(leaf)
        if source.kind == "p":
            return str(self.language["parameter"].format(self.names[[*self.values][source.index]]))
        if source.kind == "u":
            return self.names[self.assembled.form.names[source.index]]
        return f"du[{source.index}]" if source.kind == "du" else source.kind


def _identifiers(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """A name in code for each name of an unknown or parameter."""
    chosen: dict[str, str] = {}
    for name in names:
        word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
        word = word if word and not word[0].isdigit() else f"x{word}"
        while word in taken or word in chosen.values() or re.fullmatch(r"[vs]\d+", word):
            word += "_"
        chosen[name] = word
    return chosen


def _in_lines(line: str) -> str:
    """A line of code, broken at spaces where it is too long, but for a remark of Python."""
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) <= WIDTH or line.startswith(f"{indent}#"):
        return line
    return f"\n{indent}        ".join(
        textwrap.wrap(line.strip(), WIDTH - len(indent) - 8, break_long_words=False, break_on_hyphens=False)
    ).join([indent, ""])


def _plain(text: str) -> str:
    """A line of text that ends no comment or text of the code."""
    return text.replace("\n", " ").replace("*/", "* /").replace('"', "'").replace("\\", "/")
