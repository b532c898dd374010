"""Captures a whole training step as one model: loss, gradients, and the optimiser's update."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import operator
import os
import traceback
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.eval_frame import OptimizedModule
from torch._dynamo.source import ConstantSource
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.compiler import _compile_session_context
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.nn.utils.stateless import _reparametrize_module

import reprise

from . import phases
from .decompositions import decompositions, traced_forms
from .errors import PYTORCH, Unsupported
from .lowering import Names, lower
from .model import Model
from .optimizers import Rule, Tensors, clipped
from .partition import listed_reasons
from .results import fake_value
from .settings import check_settings, settings_of
from .states import NEXT, SEED, restored, stored, with_values

#: Dims that vary from step to step: number of the argument, and axis.
Varying = frozenset[tuple[int, int]]


@dataclass
class Group:
    """A group of parameters: its rule, and the parameters by name."""

    rule: Rule
    parameters: dict[str, torch.Tensor]

    def scalars(self, trained: Container[str]) -> Tensors:
        """Returns what the optimiser keeps for those parameters of the group that are trained."""
        return self.rule.scalars(
            [p for n, p in self.parameters.items() if n in trained]
        )

    def steps(self, trained: Container[str]) -> float:
        """How many steps the optimiser has taken, if it counts them."""
        scalars = self.scalars(trained)
        return float(scalars["step"]) if "step" in scalars else 0.0


@dataclass
class Captured:
    """A training step as a model.

    `states` are the names of inputs that sessions keep; the next value of each is the output with
    the suffix NEXT. `inputs` are the positions of the caller's tensors by name of the input. `trace`
    is the graph, and `names` those of its arguments. `admits` tells whether it is right for arguments
    of other shapes. `owners` has the FX node of each node of the model.
    """

    model: Callable[[Tensors], Model]
    states: list[str]
    inputs: dict[str, int]
    rates: dict[str, int]
    trace: GraphModule
    names: list[str]
    admits: Callable[[Sequence[tuple[int, ...]]], bool]
    owners: dict[str, str]

    @property
    def pairs(self) -> dict[str, str]:
        """The outputs by the states whose next values they are."""
        return {name: name + NEXT for name in self.states}


@dataclass(frozen=True)
class Arguments:
    """The tensors of a step. The last ones are keyword arguments of the model."""

    tensors: tuple[torch.Tensor, ...]
    keywords: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, positional: Iterable[torch.Tensor], named: Mapping[str, torch.Tensor]
    ) -> Arguments:
        """Returns the arguments of a call."""
        return cls((*positional, *named.values()), tuple(named))

    @property
    def positional(self) -> int:
        """How many tensors are no keyword arguments."""
        return len(self.tensors) - len(self.keywords)

    def resized(self, varying: Varying) -> Arguments:
        """Returns arguments in which dims that vary have sizes that no other dim is likely to have.

        A trace assumes that sizes differ, or are equal, as they do and are in its examples.
        """
        sizes = sorted({self.tensors[n].shape[a] for n, a in varying})
        other = dict(zip(sizes, _UNUSUAL, strict=False))
        found = []
        for number, tensor in enumerate(self.tensors):
            dims = [
                other.get(s, s) if (number, a) in varying else s
                for a, s in enumerate(tensor.shape)
            ]
            found.append(torch.empty(dims, dtype=tensor.dtype))
        return Arguments(tuple(found), self.keywords)


#: Prime numbers that are sizes of no layer.
_UNUSUAL = (71, 83, 97, 109, 127, 139, 151, 163)

#: The input that is the settings of the optimiser besides learning rates, those of all groups.
NUMBERS = "optimizer.settings"


def uncompiled(model: torch.nn.Module) -> torch.nn.Module:
    """Returns the module that torch.compile() was given to make this one."""
    while isinstance(model, OptimizedModule):
        model = model._orig_mod
    return model


def _loss_in(result: Any) -> torch.Tensor:
    """Returns the loss that a model returns, alone or in a result."""
    found = result
    if isinstance(result, Mapping):
        found = result.get("loss")
    elif not isinstance(result, torch.Tensor):
        found = getattr(result, "loss", None)
    if not isinstance(found, torch.Tensor):
        raise reprise.UsageError(
            "without a loss function, the model must return the loss, or a result that has it as "
            f"'loss', but it returns {type(result).__name__}; give TrainStep a loss function"
        )
    return found


class _WithLoss(torch.nn.Module):
    def __init__(
        self, model: torch.nn.Module, loss: Callable[..., Any] | None, keywords: tuple[str, ...]
    ) -> None:  # fmt: skip
        super().__init__()
        self.model = model
        self._loss, self._keywords = loss, keywords

    def forward(self, *arguments: Any) -> tuple[torch.Tensor]:
        count = len(arguments) - len(self._keywords)
        listed = arguments[:count]
        named = dict(zip(self._keywords, arguments[count:], strict=True))
        if self._loss is None:
            result = self.model(*listed, **named)
            return (_loss_in(result),)
        return (self._loss(self.model(*listed[:-1], **named), listed[-1]),)


def _public(name: str) -> str:
    """Returns the name of a tensor of _WithLoss as states and errors have it."""
    head, _, rest = name.partition(".")
    return rest if head == "model" else f"loss.{rest}"


def slot_name(slot: str, parameter: str) -> str:
    """Returns the name of the state that is a tensor of the optimiser for a parameter."""
    return f"optimizer.{slot}.{parameter}"


def scalar_name(scalar: str, group: int) -> str:
    """Returns the name of the state that is a number of the optimiser for a group."""
    return f"optimizer.{scalar}.{group}"


def rate_name(group: int, groups: int) -> str:
    """Returns the name of the input that is the learning rate of a group."""
    return "lr" if groups == 1 else f"lr.{group}"


def argument_names(
    model: torch.nn.Module, arguments: Arguments, has_target: bool
) -> list[str]:
    """Returns names for the tensors of a step: those of the model's arguments, and "target"."""
    count = arguments.positional
    own = [
        p.name
        for p in inspect.signature(model.forward).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    names = [own[i] if i < len(own) else f"input{i}" for i in range(count)]
    if has_target:
        if not names:
            raise reprise.UsageError(
                "the target must be the last positional argument of the training step"
            )
        names[-1] = "target"
    return [*names, *arguments.keywords]


def _check_names(names: Sequence[str]) -> None:
    """Raises an error if two tensors of a step have the same name."""
    twice = sorted(n for n, times in Counter(names).items() if times > 1)
    if twice:
        raise reprise.UsageError(
            f"two tensors of the training step are called '{twice[0]}': parameters, buffers, the "
            "arguments of forward(), 'target', 'lr' and 'seed' need names of their own; rename the "
            "model's"
        )


def _run(
    wrapped: torch.nn.Module, own: Tensors, arguments: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Returns the loss with these parameters and buffers; buffers that it replaces are written."""
    now = dict(own)
    loss: torch.Tensor
    with _reparametrize_module(wrapped, now, tie_weights=True):
        (loss,) = wrapped(*arguments)
    with torch.no_grad():
        for name, value in now.items():
            if value is not own[name]:
                own[name].copy_(value)
    return loss


class _Functional(torch.nn.Module):
    """Loss and gradients, of buffers that share the memory of the model's tensors.

    Autograd runs while the graph is traced, so the backward functions of the model's own autograd
    functions and its hooks are a part of it.
    """

    def __init__(
        self, wrapped: torch.nn.Module, own: Tensors, moving: list[str]
    ) -> None:
        super().__init__()
        self._wrapped = (wrapped,)  # so that its parameters are not listed
        self._moving = moving
        #: The names of the model's tensors by those of the buffers.
        self.names: dict[str, str] = {}
        for number, (name, value) in enumerate(own.items()):
            self.names[f"t{number}"] = name
            self.register_buffer(f"t{number}", value.detach())

    def forward(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = {name: getattr(self, n) for n, name in self.names.items()}
        with torch.enable_grad():
            trained = {n: own[n].detach().requires_grad_() for n in self._moving}
            loss = _run(self._wrapped[0], {**own, **trained}, arguments)
            gradients = torch.autograd.grad(loss, list(trained.values()))
        return (loss.detach(), *gradients)


def own_tensors(module: torch.nn.Module) -> Tensors:
    """Returns the parameters and buffers of a module by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _with_gradient(
    wrapped: torch.nn.Module, arguments: Sequence[torch.Tensor]
) -> list[str]:
    """Returns the names of the parameters on which the loss depends. Nothing is computed."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:

        def fake(tensor: torch.Tensor) -> torch.Tensor:
            return mode.from_tensor(tensor.detach())

        own = {
            n: fake(t).requires_grad_(
                isinstance(t, torch.nn.Parameter) and t.requires_grad
            )
            for n, t in own_tensors(wrapped).items()
        }
        loss = _run(wrapped, own, [fake(a) for a in arguments])
        trained = {n: t for n, t in own.items() if t.requires_grad and t.is_leaf}
        if loss.dim() != 0:
            raise reprise.UsageError(
                "the loss of the training step must be one number, but its shape is "
                f"{list(loss.shape)}; take its mean or sum"
            )
        if not loss.requires_grad:
            raise reprise.UsageError(
                "the loss of the training step depends on no parameter that needs a gradient"
            )
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    return [n for n, g in zip(trained, found, strict=True) if g is not None]


def _check_hooks(parameters: Tensors) -> None:
    """Raises an error for hooks that run where the step has no gradients of its own."""
    for name, parameter in parameters.items():
        if getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise reprise.Unsupported(
                f"parameter '{_public(name)}' has a hook that runs after its gradient was "
                "accumulated, which a training step cannot call; use register_hook(), or "
                "torch.compile"
            )


@contextlib.contextmanager
def _recurrent_formulas() -> Iterator[None]:
    """In this block, recurrent layers are their formulas, not operators of a library for CPUs."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _line_of(error: BaseException) -> str:
    """Returns the innermost line of an error's traceback that is not PyTorch's, with a space before."""
    own = os.path.dirname(__file__)
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith((own, PYTORCH)):
            found = f" ({frame.filename}:{frame.lineno}, {frame.line})"
    return found


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """In this block, what a graph cannot contain is an error of reprise."""
    try:
        yield
    except (
        DataDependentOutputException,
        DynamicOutputShapeException,
        GuardOnDataDependentSymNode,
    ) as error:
        raise reprise.Unsupported(
            "a training step is one graph, without branches and sizes that depend on the values of "
            f"tensors, but the model or the loss has one{_line_of(error)}: {error}; use torch.compile"
        ) from error
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        raise reprise.Unsupported(
            "a training step cannot take reentrant checkpoints; use "
            "torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
        ) from error


def _after_hooks(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Returns what the hooks of a parameter make of its gradient."""
    for hook in (parameter._backward_hooks or {}).values():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient


def _results(gm: GraphModule) -> tuple[Node, ...]:
    found: tuple[Node, ...] = gm.graph.output_node().args[0]  # type: ignore[assignment]
    return found


def _fakes(
    mode: FakeTensorMode, arguments: Sequence[torch.Tensor], varying: Varying | None
) -> tuple[torch.Tensor, ...]:
    """Returns the arguments without values, in which dims that vary are symbols."""
    found = []
    for number, argument in enumerate(arguments):
        context: Any = None
        if varying is not None:
            kinds = [
                DimDynamic.DYNAMIC if (number, axis) in varying else DimDynamic.STATIC
                for axis in range(argument.dim())
            ]
            context = StatelessSymbolicContext(dynamic_sizes=kinds)
        source = ConstantSource(f"argument{number}")
        found.append(
            mode.from_tensor(argument.detach(), source=source, symbolic_context=context)
        )
    return tuple(found)


def _guards(
    sizes: ShapeEnv, fakes: Sequence[torch.Tensor]
) -> Callable[[Sequence[tuple[int, ...]]], bool]:
    """Returns what tells whether the trace is right for tensors of these shapes."""
    code: Any = sizes.produce_guards_expression(fakes)  # type: ignore[arg-type]
    if not code:
        return lambda shapes: True

    def admits(shapes: Sequence[tuple[int, ...]]) -> bool:
        tensors = [torch.empty(s, device="meta") for s in shapes]
        return bool(sizes.evaluate_guards_expression(code, tensors))

    return admits


def _examples(gm: GraphModule) -> list[torch.Tensor]:
    """Returns tensors that are like the results of a graph."""
    fakes = [fake_value(r) for r in _results(gm)]
    return [torch.empty(f.shape, dtype=f.dtype) for f in fakes]


def _joined(
    joint: GraphModule, places: Sequence[int], update: GraphModule
) -> GraphModule:
    """Returns one graph of the loss with its gradients, and of the update that follows.

    The update's arguments are those of the step, then the results of `joint`, whose own arguments are
    those at `places`. Tracing both as one would take the time of tracing the first again.
    """
    graph = Graph()
    root: dict[str, Any] = {}
    for gm in (joint, update):
        for node in gm.graph.find_nodes(op="get_attr"):
            name = f"tensor{len(root)}"
            root[name] = operator.attrgetter(node.target)(gm)
            node.target = name
    given = update.graph.find_nodes(op="placeholder")
    count = len(given) - len(_results(joint))
    inputs = [graph.node_copy(node) for node in given[:count]]
    first = joint.graph.find_nodes(op="placeholder")
    copied = {node: inputs[at] for node, at in zip(first, places, strict=True)}
    for node, same in copied.items():
        same.meta = dict(node.meta)  # sizes that vary are symbols of the first graph
    results: Any = graph.graph_copy(joint.graph, copied)
    copied = dict(zip(given, [*inputs, *results], strict=True))
    graph.output(graph.graph_copy(update.graph, copied))
    return GraphModule(root, graph)


class _Tracer:
    """Traces one step with example tensors."""

    def __init__(
        self, model: torch.nn.Module, loss: Callable[..., Any] | None, groups: Sequence[Group],
        clip: float | None, arguments: Arguments, fixed: bool, varying: Varying | None,
    ) -> None:  # fmt: skip
        self._model, self._groups, self._clip = model, groups, clip
        self._given, self._fixed, self._varying = arguments.tensors, fixed, varying
        self._names = argument_names(model, arguments, loss is not None)
        self._wrapped = _WithLoss(model, loss, arguments.keywords)
        self._scalars: list[list[str]] = []  # by group
        self._slots: dict[str, list[str]] = {}  # by parameter
        self.values: Tensors = {}
        self.results: list[str] = []
        #: Makes the guards on sizes that tracing and lowering have added.
        self.guards: Callable[[], Callable[[Sequence[tuple[int, ...]]], bool]] = (
            lambda: lambda shapes: False
        )

    def joint(self) -> None:
        """Makes the graph of loss and gradients."""
        arguments = self._given
        own = own_tensors(self._wrapped)
        _check_hooks(own)
        # Models that ask whether they are compiled leave out checks of values.
        compiling = _compile_session_context()
        # Of a model that is compiled already, or has parts that are, the step takes the originals.
        eager = torch.compiler.set_stance("force_eager")
        with _refused(), eager, compiling, traced_forms(), _recurrent_formulas():
            moving = _with_gradient(self._wrapped, arguments)
            before = settings_of(self._model)
            step = _Functional(self._wrapped, own, moving)
            # Tensors that the model has beside its parameters and buffers are constants.
            sizes = None if self._varying is None else ShapeEnv()
            mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes)
            fakes = _fakes(mode, arguments, self._varying)
            graph, signature = aot_export_module(
                step, fakes, trace_joint=False, decompositions=decompositions()
            )
            if sizes is not None:
                self.guards = functools.partial(_guards, sizes, fakes)
        check_settings(before, settings_of(self._model))
        assert isinstance(graph, GraphModule)
        self._graph = graph
        names = {n: _public(name) for n, name in step.names.items()}
        self._own = {_public(name): value for name, value in own.items()}
        self._arguments = [names[n] for n in signature.buffers]
        outputs = _results(graph)
        # The new values of buffers come first. Several outputs may be one value.
        count = len(outputs) - 1 - len(moving)
        mutated = {getattr(o, "name", None): i for i, o in enumerate(outputs[:count])}
        self._mutated = {
            names[target]: mutated[name]
            for name, target in signature.buffers_to_mutate.items()
        }
        self._loss = count
        self._gradients = {_public(n): count + 1 + i for i, n in enumerate(moving)}
        changed = [step.names[t] for t in signature.buffers_to_mutate.values()]
        own_of_loss = [_public(n) for n in changed if not n.startswith("model.")]
        if own_of_loss:
            raise reprise.Unsupported(
                f"the loss changes its buffer '{own_of_loss[0]}', which a training step does not keep; "
                "make the loss a part of the model, and pass None as the loss"
            )

    def whole(self) -> tuple[GraphModule, list[str]]:
        """Traces the step as one graph; returns the names of its arguments as well."""
        own, arguments = self._own, self._given
        names, values = list(self._arguments), [own[n] for n in self._arguments]
        for number, group in enumerate(self._groups):
            used = {n: p for n, p in group.parameters.items() if n in self._gradients}
            scalars = group.rule.scalars(list(used.values()))
            self._scalars.append(list(scalars))
            names += [scalar_name(name, number) for name in scalars]
            values += scalars.values()
            for key, parameter in used.items():
                slots = group.rule.slots(parameter)
                self._slots[key] = list(slots)
                names += [slot_name(name, key) for name in slots]
                values += slots.values()
            names.append(rate_name(number, len(self._groups)))
            values.append(torch.tensor(0.1))
        count = (
            0 if self._fixed else sum(len(g.rule.numbers(1.0)) for g in self._groups)
        )
        if count:
            names.append(NUMBERS)
            values.append(torch.zeros(count))
        names += self._names
        values += list(arguments)
        _check_names([*names, SEED])
        tensors = [v.detach() for v in values]
        self.values = dict(zip(names, tensors, strict=True))
        count = len(names)
        update = make_fx(
            lambda *all_: self._step(dict(zip(names, all_[:count], strict=True)), all_[count:]),
            decomposition_table=decompositions(), tracing_mode="fake",
            _allow_non_fake_inputs=True,
        )(*tensors, *_examples(self._graph))  # fmt: skip
        places = [*range(len(self._arguments)), *range(count - len(arguments), count)]
        return _joined(self._graph, places, update), names

    def _numbers(self, tensors: Tensors) -> list[Mapping[str, torch.Tensor | float]]:
        """Returns the settings of each group: elements of an input, or constants."""
        if self._fixed:
            return [group.rule.numbers(None) for group in self._groups]
        places = itertools.count()
        given = tensors.get(NUMBERS)
        found: list[Mapping[str, torch.Tensor | float]] = []
        for group in self._groups:
            names = group.rule.numbers(1.0)
            found.append(
                {n: given[next(places)] for n in names} if given is not None else {}
            )
        return found

    def _step(
        self, tensors: Tensors, results: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        new: Tensors = {n: results[o] for n, o in self._mutated.items()}
        gradients = {
            n: _after_hooks(self._own[n], results[o])
            for n, o in self._gradients.items()
        }
        if self._clip is not None:
            scaled = clipped(list(gradients.values()), self._clip)
            gradients = dict(zip(gradients, scaled, strict=True))
        numbers = self._numbers(tensors)
        for number, group in enumerate(self._groups):
            now = {**tensors, **new}
            new.update(self._update(number, group, now, gradients, numbers[number]))
        self.results = list(new)
        return [results[self._loss], *new.values()]

    def _update(
        self, number: int, group: Group, tensors: Tensors, gradients: Tensors,
        numbers: Mapping[str, torch.Tensor | float],
    ) -> Tensors:  # fmt: skip
        known = {n: tensors[scalar_name(n, number)] for n in self._scalars[number]}
        scalars = group.rule.next_scalars(known, numbers)
        new: Tensors = {scalar_name(n, number): v for n, v in scalars.items()}
        rate = tensors[rate_name(number, len(self._groups))]
        for name in (n for n in group.parameters if n in gradients):
            slots = {s: stored(tensors[slot_name(s, name)]) for s in self._slots[name]}
            value, after = group.rule.update(
                stored(tensors[name]),
                stored(gradients[name]),
                slots,
                scalars,
                numbers,
                rate,
            )
            dtype = tensors[name].dtype
            new[name] = restored(value, dtype)
            new.update(
                {slot_name(s, name): restored(v, dtype) for s, v in after.items()}
            )
        return new


def _refusal(gm: GraphModule, error: Unsupported) -> reprise.Unsupported:
    return reprise.Unsupported(
        "a training step is captured as a whole, but not all of its operators can be compiled: "
        + (listed_reasons(gm) or str(error))
    )


def capture(
    model: torch.nn.Module,
    loss: Callable[..., Any] | None,
    groups: Sequence[Group],
    arguments: Arguments,
    clip: float | None = None,
    *,
    fixed: bool = False,
    varying: Varying | None = None,
) -> Captured:
    """Captures the step that trains `model` on tensors like these.

    With `fixed`, settings of the optimiser are constants. `varying` are the dims of the arguments
    that vary from step to step.
    """
    tracer = _Tracer(model, loss, groups, clip, arguments, fixed, varying)
    with phases.phase("traced"):
        tracer.joint()
        gm, names = tracer.whole()
    states = [n for n in names if n in set(tracer.results)]
    count = len(names) - len(arguments.tensors)
    rates = {rate_name(i, len(groups)): i for i in range(len(groups))}
    constants = {
        i: tracer.values[n]
        for i, n in enumerate(names[:count])
        if n not in set(states) and n not in rates and n != NUMBERS
    }
    chosen = Names(
        dict(enumerate(names)),
        {0: "loss", **{i + 1: n + NEXT for i, n in enumerate(tracer.results)}},
        SEED + NEXT,
        exported=True,
    )
    for node in gm.graph.find_nodes(
        op="call_function", target=torch.ops.aten._assert_tensor_metadata.default
    ):  # it checks what tracing has fixed
        gm.graph.erase_node(node)
    try:
        with phases.phase("translated"):
            lowered = lower(gm, constants, in_order=True, names=chosen)
    except Unsupported as error:
        raise _refusal(gm, error) from error
    if None in lowered.extra:
        states = [*states, SEED]
    if any(symbol is not None for symbol in lowered.extra):
        raise reprise.Unsupported("the step needs a size that no tensor has")

    return Captured(
        functools.partial(with_values, lowered.model),
        states,
        {n: i for i, n in enumerate(names[count:])},
        rates,
        gm,
        names,
        tracer.guards(),
        lowered.owners,
    )
