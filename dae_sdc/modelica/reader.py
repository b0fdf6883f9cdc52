"""Reading models from Modelica: flat models as tools export them, and small models with components."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dae_sdc.deadline import under_way
from dae_sdc.errors import InputError, require_number
from dae_sdc.model.model import Formula, Model
from dae_sdc.modelica.arithmetic import SIMPLIFIED, TRUE, TRUTHS, Condition, shown
from dae_sdc.modelica.flat import Flat
from dae_sdc.modelica.front_end import flattened
from dae_sdc.modelica.library import Bound, Library, Scope, Variable
from dae_sdc.modelica.outline import Outline
from dae_sdc.modelica.parser import parse
from dae_sdc.modelica.rules import RULES
from dae_sdc.modelica.syntax import ClassDefinition, Modification, Source, similar
from dae_sdc.modelica.values import Values
from dae_sdc.modelica.writer import event_text
from dae_sdc.options import MODELICA_READERS, READER_VARIABLE, Reading, about, option, takes
from dae_sdc.registry import nearest_file
from dae_sdc.sharing import one_at_a_time

LARGEST_FILE: Final = 20_000_000  # Largest number of bytes of a file.

# What messages say where the other reader may do better.
_MORE: Final = re.compile("not understood|there is no (class|function)|no right-hand|with a condition")
_EXPERIMENT: Final = ("StartTime", "StopTime", "Interval", "Tolerance", "NumberOfIntervals")


@dataclass(frozen=True, kw_only=True)
class FileOptions(Reading):
    """Options of :func:`read_modelica`."""

    source: str | Path = field(kw_only=False, metadata=about("the file, whose name ends in .mo"))


@dataclass(frozen=True, kw_only=True)
class TextOptions(Reading):
    """Options of :func:`read_modelica_text`."""

    text: str = field(kw_only=False, metadata=about("the text"))
    file: str = option("<text>", "name of the text in messages")


@takes(FileOptions)
def read_modelica(given: FileOptions) -> Model:
    """The model in a file of Modelica.

    {options}

    Returns
    -------
    Model
        Its unknowns have the names of the file, "a.b" for variable b of component a and "x[1]" for an element
        of an array; quotes are removed, and blanks, commas, semicolons and round brackets become "_". Its
        interval and dt are those of ``annotation(experiment(...))``, its reference is that of
        ``annotation(Documentation(info=...))`` and says so where rumoca has read the file.

    Raises
    ------
    InputError
        If the file cannot be read, or contains an unsupported construct: one line with the file, its line,
        the reason and what to do.

    References
    ----------
    Modelica Association: Modelica, a unified object-oriented language for systems modeling, language
    specification, version 3.6, 2023.

    Examples
    --------
    >>> from pathlib import Path
    >>> text = "model Tank Real h(start=2, fixed=true); equation der(h) = -h; end Tank;"
    >>> length = Path("tank.mo").write_text(text)
    >>> ds.read_modelica("tank.mo").names
    ('h',)
    """
    path = Path(given.source)
    if path.suffix != ".mo":
        raise InputError(f"{path} is no file of Modelica; its name must end in .mo")
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} has more than {LARGEST_FILE} bytes; give the model alone")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8; save it as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        near = nearest_file(path)
        hint = f"; did you mean {near}?" if near else ""
        raise InputError(f"{path} cannot be read: {reason}{hint}") from None
    return _read(Source(text, str(path)), given)


@takes(TextOptions)
def read_modelica_text(given: TextOptions) -> Model:
    """The model in a text of Modelica, see :func:`read_modelica`.

    {options}

    Returns
    -------
    Model
        The model.

    Raises
    ------
    InputError
        If the text contains an unsupported construct.

    Examples
    --------
    >>> model = ds.read_modelica_text("model Tank Real h(start=2); equation der(h) = -h; end Tank;")
    >>> model.names
    ('h',)
    """
    return _read(Source(given.text, given.file), given)


@under_way("the model was read")
def _read(source: Source, given: Reading) -> Model:
    reader = given.reader or os.environ.get(READER_VARIABLE)
    if reader and reader not in MODELICA_READERS:
        raise InputError(f"there is no reader {reader}; take one of {', '.join(MODELICA_READERS)}")
    numbers = {
        word: value if isinstance(value, bool) else require_number(f"parameter {word}", value)
        for word, value in (given.parameters or {}).items()
    }
    try:
        if reader == "rumoca":
            return _by_rumoca(source, numbers, given)
        builder = _Builder(source, one_at_a_time(parse)(source), numbers)
        path = _fitting(source, builder.library.models(), given.name)
        return builder.model(builder.library.classes()[path])
    except InputError as error:
        if reader or not (given.libraries or _MORE.search(str(error))):
            raise  # What is wrong in a text is so for every reader.
        try:
            return _by_rumoca(source, numbers, given)
        except InputError as other:
            if given.libraries:
                raise
            raise InputError(f"{error}; {other}") from None
    except RecursionError:
        what = "something in this text is nested too deeply"
        raise source.error(0, f"{what}; write parts of it as variables") from None


def _by_rumoca(source: Source, numbers: Mapping[str, float], given: Reading) -> Model:
    name, outline = given.name, Outline(source)
    if name is None or not given.libraries:
        name = _fitting(source, outline.models, name)
    definition, structural = flattened(outline, name, given.libraries, numbers)
    assert definition.parent is not None
    model = _Builder(source, definition.parent, numbers).model(definition, structural)
    model.reference = f"{model.reference} (read by rumoca)".strip()
    return model


class _Builder:
    def __init__(self, source: Source, root: ClassDefinition, numbers: Mapping[str, float]) -> None:
        self.source, self.fail, self.numbers = source, source.fail, numbers
        self.library = Library(root, source)

    @one_at_a_time
    def model(self, definition: ClassDefinition, structural: Iterable[str] = ()) -> Model:
        discovered, before = {*structural}, None
        while discovered != before:  # Flattened again each time that structural parameters are discovered.
            before = set(discovered)
            self.values = Values(self.library, RULES, self.numbers, discovered)
            flat = Flat(definition, self.library, self.values)
        names = [variable.name for variable in flat.variables if variable.variability == "parameter"]
        for word in (each for each in self.numbers if each not in names):
            hint = similar(word, names) or _listed(names)
            raise InputError(f"{self.source.file} has no parameter {word}{hint}")
        interval, dt = self.experiment(definition)
        title, reference = definition.description, self.documentation(definition)
        model = Model(definition.name.strip("'"), title=title, interval=interval, dt=dt, reference=reference)
        new = (reaction.changes.values() for reaction in flat.reactions)  # What events give.
        self.alone = {item.expression for item in (*flat.equations, *flat.initial)}.union(*new)
        texts = {variable.name: variable.shown.replace("'", "") for variable in flat.variables}
        model.labels = {"t": "time", **{name: label for name, label in texts.items() if name != label}}
        for variable in flat.variables:
            enter = self.parameter if variable.variability else self.unknown
            self.values.wrapped(variable.at, enter, model, variable)
        for variable in (one for one in flat.variables if not one.variability):
            for key, word in ((0, "start"), ("min", "min"), ("max", "max")):
                if word in variable.attributes:
                    self.follow(model, variable.name, key, self.values.bound(variable.attributes[word]))
        for at, unknown, value in flat.starts:
            number = self.values.numeric(value, at, f"the start of {shown(unknown)}")
            entered = model.variables_by_name[str(unknown.index)]
            if unknown.order in entered.fixed and entered.start[unknown.order] != number:
                self.fail(at, f"the start of {shown(unknown)} is fixed already, at another value; remove one")
            model.start(shown(unknown), number, fixed=True)
            self.follow(model, entered.name, unknown.order, value)
        for name in self.values.discrete:  # Events alone change it, from its start value on.
            entered = model.variables_by_name[name]
            entered.start.setdefault(0, 0.0)
            entered.fixed.add(0)
        self.equations(model, flat)
        steady = {*self.values.discrete, *self.values.defined}  # What is constant between two events.
        for reaction in flat.reactions:

            def text(value: Any, at: int = reaction.at) -> str:
                return event_text(self.values.graph, self.values.check(value, at), steady)

            changes = {text(target): text(value) for target, value in reaction.changes.items()}
            told = {word: each for word, each in reaction.about.items() if each != TRUE}
            about = {word: text(each) if word == "only" else each for word, each in told.items()}
            self.values.wrapped(reaction.at, model.when, text(reaction.condition), changes, **about)
        return model

    def equations(self, model: Model, flat: Flat) -> None:
        rows, counts = list[tuple[int, str, int]](), dict[str, int]()
        for item in flat.equations:
            label = item.note or f"line {self.source.line(item.at)}"
            label = unique = f"{item.where}: {label}" if item.where else label
            while unique in counts:
                counts[label] += 1
                unique = f"{label} ({counts[label]})"
            counts[unique] = 1
            rows.append((item.at, unique, item.expression))
        graph = self.values.graph
        if not rows and not model.names:  # What is solved has an equation; other tools add a state, too.
            model.variable("dummy_state", 0.0, fixed=True)
            rows.append((0, "dummy_state", graph.variable("dummy_state", 1)))
        if flat.initial and self.values.initial is not None:
            what = "initial() chooses among equations on which initial equations depend"
            self.fail(self.values.initial, f"{what}; write the start values")
        # What vanishes at the start is an unknown of its own, which is 0 there.
        for k, item in enumerate(flat.initial, 1):
            model.variable(f"initial[{k}]", 0.0, fixed=True)
            label = f"initial equation of line {self.source.line(item.at)} ({k})"
            rows.append((item.at, label, graph.sub(graph.variable(f"initial[{k}]"), item.expression)))
        count, choice, wrapped = len(graph), graph.parameter(SIMPLIFIED), self.values.wrapped
        ends = [{choice: each} for each in (graph.one, graph.zero)]
        pairs = [[root, root] for _, _, root in rows]
        if choice < count:  # the text has homotopies
            pairs = [[wrapped(at, graph.substitute, [root], end)[0] for end in ends] for at, _, root in rows]
        nodes = model.copied(graph, [node for pair in pairs for node in pair])
        for (at, name, _), (root, other) in zip(rows, pairs, strict=True):
            if root in graph.numbers:
                holds = "holds always" if root == graph.zero else "never holds"
                self.fail(at, f"{name} of model {model.name} {holds}: no unknown is left in it")
            if other != root:
                model.simplified_roots[len(model.roots)] = nodes[other]
            model.add_root(nodes[root], name)

    def parameter(self, model: Model, variable: Variable) -> None:
        symbol, value = self.values.symbol(variable), self.values.numbers.get(variable)
        for word, sign, where in (("min", 1.0, "below"), ("max", -1.0, "above")):
            limit = None if value is None else self.attribute(variable, word)
            if value is not None and limit is not None and sign * value < sign * limit:
                what = f"the parameter {variable.shown} is {value:.10g}, {where} its {word} {limit:.10g}"
                self.fail(variable.at, f"{what}; give it another value")
        graph = self.values.graph
        is_own = symbol == graph.parameter(variable.name) and variable.variability == "parameter"
        # One without a value may stand in no expression, as fields of records do.
        if is_own and (value is not None or any(symbol in each for each in (self.alone, *graph.args))):
            model.parameter(variable.name, value, unit=self.unit(variable))

    def unknown(self, model: Model, variable: Variable) -> None:
        fixed, is_discrete = variable.attributes.get("fixed"), variable.name in self.values.discrete
        truth = None if fixed is None else self.values.bound(fixed)
        if fixed is not None and truth not in TRUTHS:
            self.fail(fixed.expression.at, f"fixed of {variable.shown} must be true or false")
        # Modelica 3.6, section 8.6: what is not continuous has its start before all that happens there.
        is_fixed = truth == TRUE and (is_discrete or variable.type == "Real")
        start, low, high = (self.attribute(variable, word) for word in ("start", "min", "max"))
        if low is not None and high is not None and low > high:
            self.fail(variable.at, f"min of {variable.shown} is above max; correct one")
        start = 0.0 if is_fixed and start is None else start
        model.variable(variable.name, start, fixed=is_fixed, unit=self.unit(variable), min=low, max=high)
        entered = model.variables_by_name[variable.name]
        entered.discrete, nominal = is_discrete, self.attribute(variable, "nominal")
        entered.nominal |= {0: abs(nominal)} if nominal else {}

    def follow(self, model: Model, name: str, key: int | str, value: Any) -> None:
        """Let what parameters give an unknown be another for other values of them."""
        node = value.node if isinstance(value, Condition) else value
        names = self.values.names_in(node) if isinstance(node, int) else set[str]()
        if names and names <= model.parameters_by_name.keys():
            place = model.copied(self.values.graph, [node])[node]
            model.variables_by_name[name].formulas[key] = Formula(model.graph, place, model.parameter_names)

    def attribute(self, variable: Variable, word: str) -> float | None:
        bound = variable.attributes.get(word)
        if bound is None:
            return None
        at = bound.expression.at
        value = self.values.bound(bound)
        if variable.type == "Boolean" and value in TRUTHS:
            return float(value == TRUE)
        return self.values.numeric(self.values.as_number(value, at), at, f"{word} of {variable.shown}")

    def unit(self, variable: Variable) -> str:
        wrong = f'the unit of {variable.shown} must be a string, "m"'
        return self.string(variable.attributes.get("unit"), wrong)

    def string(self, bound: Bound | None, wrong: str) -> str:
        """A string, empty without one; ``wrong`` is the message for what is none."""
        value = "" if bound is None else self.values.bound(bound)
        if bound is not None and not isinstance(value, str):
            self.fail(bound.expression.at, wrong)
        return str(value)

    def experiment(self, definition: ClassDefinition) -> tuple[tuple[float, float], float | None]:
        annotation = definition.annotations.get("experiment", Modification(definition.at))
        settings: dict[str, float] = {}
        for word, part in (each for each in annotation.parts.items() if not each[0].startswith("__")):
            if word not in _EXPERIMENT:
                hint = similar(word, _EXPERIMENT) or f"; known are {', '.join(_EXPERIMENT)}"
                self.fail(part.at, f"an experiment has no {word}{hint}")
            if part.value is None:
                self.fail(part.at, f"{word} of the experiment needs a number")
            value = self.values.number(part.value, Scope(None, definition))
            settings[word] = self.values.numeric(value, part.at, f"{word} of the experiment")
        start = settings.get("StartTime", 0.0)
        stop = settings.get("StopTime", start + 1.0)
        dt = settings.get("Interval")
        if dt is None and settings.get("NumberOfIntervals", 0.0) >= 1:
            dt = (stop - start) / settings["NumberOfIntervals"]
        if stop == start:  # as where initial values alone are asked for
            stop, dt = start + 1.0, None
        if stop < start or (dt is not None and not 0 < dt <= stop - start):
            self.fail(annotation.at, "an experiment needs StartTime <= StopTime and 0 < Interval within them")
        return (start, stop), dt

    def documentation(self, definition: ClassDefinition) -> str:
        annotation = definition.annotations.get("Documentation", Modification(definition.at))
        info = annotation.parts.get("info", annotation).value
        bound = None if info is None else Bound(info, Scope(None, definition))
        text = self.string(bound, "info of the documentation must be a string")
        return " ".join(html.unescape(re.sub(r"<[^<>]*>", " ", text)).split())


def _fitting(source: Source, models: Mapping[str, bool], name: str | None) -> str:
    """The path of the model with a name, or of the last one that is not passed over; an error without one."""
    if name is not None:
        fitting = [name] if name in models else [path for path in models if path.endswith(f".{name}")]
        fitting = [path for path in fitting if not models[path]] or fitting
        if len(fitting) != 1:
            hint = similar(name, [*models, *(path.rpartition(".")[2] for path in models)]) or _listed(models)
            number = "several models" if fitting else "no model"
            raise InputError(f"{source.file} has {number} {name}{hint}")
        return fitting[0]
    whole = [path for path, is_passed_over in models.items() if not is_passed_over]
    if not whole:
        source.fail(0, "there is no model in this text; write model NAME ... end NAME;")
    return whole[-1]


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    return f"; there is {', '.join(shown[:8])}{' and more' if len(shown) > 8 else ''}" if shown else ""
