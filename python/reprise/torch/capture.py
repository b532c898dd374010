"""Captures a whole training step as one model: loss, gradients, and the optimiser's update."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import reprise

from .decompositions import decompositions, traced_forms
from .errors import Unsupported
from .lowering import Names, lower, source_of
from .optimizers import Rule, Tensors, clipped
from .partition import unsupported
from .states import NEXT, SEED, with_values


@dataclass
class Group:
    """A group of parameters: its rule, and the parameters by name."""

    rule: Rule
    parameters: dict[str, torch.Tensor]


@dataclass
class Captured:
    """A training step as an ONNX model.

    `states` are the names of inputs that sessions keep; the next value of each is the output with
    the suffix NEXT. `inputs` are the positions of the caller's tensors by name of the input.
    """

    model: Callable[[Tensors], bytes]
    states: list[str]
    inputs: dict[str, int]
    rates: dict[str, int]

    @property
    def pairs(self) -> dict[str, str]:
        """The outputs by the states whose next values they are."""
        return {name: name + NEXT for name in self.states}


class _WithLoss(torch.nn.Module):
    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any] | None) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, *arguments: Any) -> tuple[torch.Tensor]:
        if self._loss is None:
            return (self.model(*arguments),)
        return (self._loss(self.model(*arguments[:-1]), arguments[-1]),)


_PREFIX = "model."


def slot_name(slot: str, parameter: str) -> str:
    """Returns the name of the state that is a tensor of the optimiser for a parameter."""
    return f"optimizer.{slot}.{parameter}"


def scalar_name(scalar: str, group: int) -> str:
    """Returns the name of the state that is a number of the optimiser for a group."""
    return f"optimizer.{scalar}.{group}"


def rate_name(group: int, groups: int) -> str:
    """Returns the name of the input that is the learning rate of a group."""
    return "lr" if groups == 1 else f"lr.{group}"


def argument_names(model: torch.nn.Module, count: int, has_target: bool) -> list[str]:
    """Returns names for the tensors of a step: those of the model's arguments, and "target"."""
    own = [
        p.name
        for p in inspect.signature(model.forward).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    names = [own[i] if i < len(own) else f"input{i}" for i in range(count)]
    if has_target:
        names[-1] = "target"
    return names


def _check_names(names: Sequence[str]) -> None:
    """Raises an error if two tensors of a step have the same name."""
    twice = sorted(n for n, times in Counter(names).items() if times > 1)
    if twice:
        raise reprise.UsageError(
            f"two tensors of the training step are called '{twice[0]}': parameters, buffers, the "
            "arguments of forward(), 'target', 'lr' and 'seed' need names of their own; rename the "
            "model's"
        )


def _prepared(
    module: torch.nn.Module, arguments: Sequence[torch.Tensor]
) -> torch.nn.Module:
    """Makes a graph read each tensor under the first of its names, and freezes some parameters.

    AOTAutograd would take other names for constants, and refuses parameters without a gradient.
    """
    assert isinstance(module, GraphModule)
    first = {id(p): n for n, p in module.named_parameters()}
    first.update({id(b): n for n, b in module.named_buffers()})
    for node in module.graph.find_nodes(op="get_attr"):
        value: Any = module
        for part in str(node.target).split("."):
            value = getattr(value, part, None)
        node.target = first.get(id(value), node.target)
    module.recompile()
    moving = _with_gradient(module, arguments)
    for name, parameter in list(module.named_parameters(remove_duplicate=False)):
        if name not in moving:
            owner, _, own = name.rpartition(".")
            frozen = torch.nn.Parameter(parameter.detach(), requires_grad=False)
            setattr(module.get_submodule(owner), own, frozen)
    return module


def _with_gradient(
    module: torch.nn.Module, arguments: Sequence[torch.Tensor]
) -> set[str]:
    """Returns the names of the parameters on which the loss depends. Nothing is computed."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:

        def fake(tensor: torch.Tensor) -> torch.Tensor:
            return mode.from_tensor(tensor.detach())

        parameters = {
            n: fake(p).requires_grad_(p.requires_grad)
            for n, p in module.named_parameters(remove_duplicate=False)
        }
        buffers = {n: fake(b) for n, b in module.named_buffers(remove_duplicate=False)}
        given = tuple(fake(a) for a in arguments)
        own = {**parameters, **buffers}
        (loss,) = torch.func.functional_call(module, own, given, tie_weights=False)
        trained = {n: p for n, p in parameters.items() if p.requires_grad}
        if not loss.requires_grad:
            raise reprise.UsageError(
                "the loss of the training step depends on no parameter that needs a gradient"
            )
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    return {n for n, g in zip(trained, found, strict=True) if g is not None}


class _Tracer:
    """Traces one step with example tensors."""

    def __init__(
        self, model: torch.nn.Module, loss: Callable[..., Any] | None, groups: Sequence[Group],
        clip: float | None,
    ) -> None:  # fmt: skip
        self._model, self._groups, self._clip = model, groups, clip
        self._wrapped = _WithLoss(model, loss)
        self._has_target = loss is not None
        self._scalars: list[list[str]] = []  # by group
        self._slots: dict[str, list[str]] = {}  # by parameter
        self.values: Tensors = {}
        self.results: list[str] = []

    def joint(self, arguments: Sequence[torch.Tensor]) -> None:
        """Makes the graph of loss and gradients."""
        with traced_forms():
            # The graph of an export has no branches that ask tensors for their values.
            program = torch.export.export(self._wrapped, tuple(arguments))
            self._graph, signature = aot_export_module(
                _prepared(program.module(check_guards=False), arguments), tuple(arguments),
                trace_joint=True, output_loss_index=0, decompositions=decompositions(),
            )  # fmt: skip
        backward = signature.backward_signature
        assert isinstance(self._graph, GraphModule) and backward is not None
        self._arguments = [n.removeprefix(_PREFIX) for n in signature.parameters] + [
            n.removeprefix(_PREFIX) for n in signature.buffers
        ]
        outputs = next(n for n in self._graph.graph.nodes if n.op == "output").args[0]
        self._outputs = [getattr(o, "name", None) for o in outputs]
        self._loss = self._outputs[len(signature.buffers_to_mutate)]
        self._gradients = {
            target.removeprefix(_PREFIX): name
            for name, target in backward.gradients_to_parameters.items()
        }
        self._mutated = {
            target.removeprefix(_PREFIX): name
            for name, target in signature.buffers_to_mutate.items()
        }

    def whole(self, arguments: Sequence[torch.Tensor]) -> tuple[GraphModule, list[str]]:
        """Traces the step as one graph; returns the names of its arguments as well."""
        own: Tensors = dict(self._model.named_parameters(remove_duplicate=False))
        own.update(self._model.named_buffers(remove_duplicate=False))
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
        names += argument_names(self._model, len(arguments), self._has_target)
        values += list(arguments)
        _check_names([*names, SEED])
        tensors = [v.detach() for v in values]
        self.values = dict(zip(names, tensors, strict=True))
        traced = make_fx(
            lambda *tensors: self._step(dict(zip(names, tensors, strict=True)), len(arguments)),
            decomposition_table=decompositions(), tracing_mode="fake",
        )(*tensors)  # fmt: skip
        return traced, names

    def _step(self, tensors: Tensors, arguments: int) -> list[torch.Tensor]:
        listed = list(tensors.values())
        tail = listed[len(listed) - arguments :]
        found = self._graph(*[tensors[n] for n in self._arguments], *tail)
        results = dict(zip(self._outputs, found, strict=True))
        new: Tensors = {n: results[o] for n, o in self._mutated.items()}
        gradients = {n: results[o] for n, o in self._gradients.items()}
        if self._clip is not None:
            scaled = clipped(list(gradients.values()), self._clip)
            gradients = dict(zip(gradients, scaled, strict=True))
        for number, group in enumerate(self._groups):
            new.update(self._update(number, group, tensors, gradients))
        self.results = list(new)
        return [results[self._loss], *new.values()]

    def _update(
        self, number: int, group: Group, tensors: Tensors, gradients: Tensors
    ) -> Tensors:
        known = {n: tensors[scalar_name(n, number)] for n in self._scalars[number]}
        scalars = group.rule.next_scalars(known)
        new: Tensors = {scalar_name(n, number): v for n, v in scalars.items()}
        rate = tensors[rate_name(number, len(self._groups))]
        for name in (n for n in group.parameters if n in gradients):
            slots = {s: tensors[slot_name(s, name)] for s in self._slots[name]}
            value, after = group.rule.update(
                tensors[name], gradients[name], slots, scalars, rate
            )
            new[name] = value
            new.update({slot_name(s, name): v for s, v in after.items()})
        return new


def _refusal(gm: GraphModule, error: Unsupported) -> reprise.Unsupported:
    reasons = unsupported(gm, {})
    listed = "; ".join(
        f"{node.target}: {reason}. {source_of(node)}"
        for node, reason in reasons.items()
    )
    return reprise.Unsupported(
        "a training step is captured as a whole, but not all of its operators can be compiled: "
        + (listed or str(error))
    )


def capture(
    model: torch.nn.Module,
    loss: Callable[..., Any] | None,
    groups: Sequence[Group],
    arguments: Sequence[torch.Tensor],
    clip: float | None = None,
) -> Captured:
    """Captures the step that trains `model` on tensors like these."""
    tracer = _Tracer(model, loss, groups, clip)
    tracer.joint(arguments)
    gm, names = tracer.whole(arguments)
    states = [n for n in names if n in set(tracer.results)]
    count = len(names) - len(arguments)
    rates = {rate_name(i, len(groups)): i for i in range(len(groups))}
    fixed = {
        i: tracer.values[n]
        for i, n in enumerate(names[:count])
        if n not in set(states) and n not in rates
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
        lowered = lower(gm, fixed, in_order=True, names=chosen)
    except Unsupported as error:
        raise _refusal(gm, error) from error
    if None in lowered.extra:
        states = [*states, SEED]

    return Captured(
        functools.partial(with_values, lowered.model),
        states,
        {n: i for i, n in enumerate(names[count:])},
        rates,
    )
