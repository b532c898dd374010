"""Makes random programs of PyTorch, as text, for comparisons of a backend with eager.

A program is a list of statements over `x0`, `x1`, ... and `v0`, `v1`, ... A statement is kept if eager
runs it, at two sizes of the first dim of all inputs where the sizes are to change.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

#: Dtypes of floats, and how often a program has them.
FLOATS = {"float32": 8, "float16": 1, "bfloat16": 1, "float64": 1}
#: The largest tensor and the largest element of a program.
MOST_ELEMENTS, LARGEST = 4096, 1e4


def _part(x: torch.Tensor) -> torch.Tensor:
    """The same elements as a part of a larger tensor."""
    larger = x.new_zeros([d + 2 for d in x.shape])
    part = larger[tuple(slice(1, d + 1) for d in x.shape)]
    return part.copy_(x)


def _stepped(x: torch.Tensor) -> torch.Tensor:
    """The same elements with others between them."""
    return x.repeat_interleave(2, -1)[..., ::2]


#: Ways in which the elements of an input lie in memory.
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT if x.dim() > 1 else x,
    "part": _part,
    "part of transposed": lambda x: _part(x.mT).mT if x.dim() > 1 else x,
    "stepped": _stepped,
}


@dataclass
class Program:
    """`inputs` are dtype names and dims; a first dim of None is the size that changes.

    A "number" is an int of Python, which changes with the size and may be negative.

    `layouts` say how they lie in memory, by default in the order of their dims.
    """

    inputs: list[tuple[str, tuple[int | None, ...]]]
    statements: list[str] = field(default_factory=list)
    dynamic: bool = False
    training: bool = False
    layouts: tuple[str, ...] = ()

    def text(self) -> str:
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        made = [s.split(" = ")[0] for s in self.statements if s.startswith("v")]
        made = [n for n in made if n.isidentifier()]
        lines = [*self.statements, f"return [{', '.join(made)}]"]
        return f"def program({names}):\n" + "".join(f"    {line}\n" for line in lines)

    def function(self) -> Callable[..., list[torch.Tensor]]:
        scope: dict[str, Any] = {"torch": torch, "F": F}
        exec(self.text(), scope)  # noqa: S102
        return scope["program"]  # type: ignore[no-any-return]

    def arguments(self, seed: int, size: int) -> list[Any]:
        """Inputs of quarters, so that sums of a few are exact and equal elements occur."""
        generator = torch.Generator().manual_seed(seed)
        found: list[Any] = []
        layouts = itertools.chain(self.layouts, itertools.repeat("dense"))
        for (dtype, dims), layout in zip(self.inputs, layouts, strict=False):
            if dtype == "number":
                found.append(random.Random(seed * 8 + size).randint(-4, 5))
                continue
            shape = [size if d is None else d for d in dims]
            t = torch.randint(-9, 10, shape, generator=generator)
            x = t > 0 if dtype == "bool" else t
            if dtype in FLOATS:
                x = (t / 4).to(getattr(torch, dtype))
            x = LAYOUTS[layout](x)
            found.append(x.requires_grad_(self.training and dtype in FLOATS))
        return found


class Maker:
    """Makes one program. A value is exact if equal inputs give equal bits on every device."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        r = self.random
        dynamic = r.random() < 0.35
        first = None if dynamic else r.choice([1, 2, 4, 5])
        shapes = [
            (first, 6),
            (first, 3, 4),
            (first, 4),
            (first,),
            (first, 2, 5, 6),
            (first, 3, 1),
        ]
        dtype = r.choices(list(FLOATS), list(FLOATS.values()))[0]
        # These add quarters exactly.
        self.sums_are_exact = dtype in ("float32", "float64")
        inputs = [(dtype, r.choice(shapes)) for _ in range(r.randint(1, 3))]
        inputs += [("int64", r.choice(shapes)) for _ in range(r.randint(0, 1))]
        inputs += [("bool", r.choice(shapes)) for _ in range(r.randint(0, 1))]
        if dynamic and r.random() < 0.4:
            inputs.append(("number", ()))
        training = r.random() < 0.5
        layouts = [
            r.choice(list(LAYOUTS)) if r.random() < 0.5 else "dense" for _ in inputs
        ]
        self.program = Program(inputs, [], dynamic, training, tuple(layouts))
        self.sizes = [4, 7] if dynamic else [0]
        self.scopes = [self.run(size) for size in self.sizes]
        self.exact = {f"x{i}" for i in range(len(inputs))}
        self.count = 0

    def run(self, size: int) -> dict[str, Any]:
        """Runs what the program has so far."""
        scope: dict[str, Any] = {"torch": torch, "F": F}
        arguments = self.program.arguments(self.seed, size)
        scope.update((f"x{i}", t) for i, t in enumerate(arguments))
        for statement in self.program.statements:
            exec(statement, scope)  # noqa: S102
        return scope

    def tensors(self) -> dict[str, torch.Tensor]:
        return {k: v for k, v in self.scopes[0].items() if isinstance(v, torch.Tensor)}

    def pick(self, test: Callable[[torch.Tensor], bool], exact: bool = False) -> str:
        """The name of a value that fits; later values are likelier."""
        names = [
            n
            for n, t in self.tensors().items()
            if test(t) and (n in self.exact or not exact)
        ]
        if not names:
            raise LookupError
        return self.random.choice(names[-4:] if self.random.random() < 0.7 else names)

    def dim(self, name: str) -> int:
        rank = self.scopes[0][name].dim()
        return self.random.randrange(-rank, rank)

    def keep(self, expression: str, exact: bool, in_place: str = "") -> bool:
        """Adds a statement if eager runs it with results that can be compared."""
        name = f"v{self.count}"
        statement = expression if in_place else f"{name} = {expression}"
        trial = [dict(scope) for scope in self.scopes]
        try:
            for scope in trial:
                exec(statement, scope)  # noqa: S102
                made = scope[in_place or name]
                if not isinstance(made, torch.Tensor) or not self.fits(made):
                    raise ValueError
        except Exception:  # noqa: BLE001  (whatever eager refuses)
            if in_place:
                self.scopes = [self.run(size) for size in self.sizes]
            return False
        for scope in trial:
            scope.pop("__builtins__", None)
        self.scopes = trial
        self.program.statements.append(statement)
        if in_place:
            # Everything that shares its memory changes too.
            memory = self.scopes[0][in_place].untyped_storage().data_ptr()
            for other, t in self.tensors().items():
                if not exact and t.untyped_storage().data_ptr() == memory:
                    self.exact.discard(other)
        else:
            self.count += 1
            if exact:
                self.exact.add(name)
        return True

    @staticmethod
    def fits(t: torch.Tensor) -> bool:
        if t.is_complex() or t.is_sparse or not 0 < t.numel() <= MOST_ELEMENTS:
            return False
        values = t.detach()
        if not values.is_floating_point():
            return bool((values.to(torch.int64).abs() <= 2**31).all())
        return bool(values.isfinite().all()) and float(values.abs().max()) <= LARGEST


def is_float(t: torch.Tensor) -> bool:
    return t.is_floating_point()


def is_int(t: torch.Tensor) -> bool:
    return t.dtype == torch.int64


def is_bool(t: torch.Tensor) -> bool:
    return t.dtype == torch.bool


def is_any(t: torch.Tensor) -> bool:
    return True


def of_rank(least: int, most: int = 9) -> Callable[[torch.Tensor], bool]:
    return lambda t: is_float(t) and least <= t.dim() <= most


#: Smooth functions of one float tensor; `{}` is its name.
SMOOTH = [
    "{}.sigmoid()", "{}.tanh()", "{}.clamp(-3, 3).exp()", "{}.sin()", "{}.cos()", "{}.square()",
    "({}.abs() + 0.5).log()", "({}.abs() + 0.5).sqrt()", "({}.abs() + 0.5).rsqrt()", "F.gelu({})",
    "F.gelu({}, approximate='tanh')", "F.silu({})", "F.softplus({})", "F.elu({})", "F.mish({})",
    "{}.erf()", "{}.clamp(-2, 2).expm1()", "({}.abs() + 0.1).log1p()", "F.logsigmoid({})",
    "{}.atan()", "{}.clamp(-2, 2).sinh()", "{} / ({}.abs() + 1)", "({}.abs() + 1).reciprocal()",
    "F.softmax({}, {d})", "F.log_softmax({}, {d})", "{}.logsumexp({d})", "{}.mean({d})",
    "{}.var({d}, correction=0)", "{}.std({d}, correction=0, keepdim=True)", "{}.mean()",
    "{}.norm(dim={d})", "F.normalize({}, dim={d})", "F.layer_norm({}, {}.shape[-1:])",
    "{}.cumprod({d})", "{}.prod({d})", "{}.logcumsumexp({d})", "{} * 0.3", "{} / 3", "1 - {} / 7",
    "torch.lerp({}, {}.flip({d}), 0.3)", "{}.square().sum({d}, keepdim=True)", "F.glu({}, {d})",
    "torch.cdist({}, {}, compute_mode='donot_use_mm_for_euclid_dist') * 1", "{}.hypot({}.new_ones(()))",
    "F.hardswish({})", "F.rms_norm({}, {}.shape[-1:])", "{}.sinc()", "{}.lgamma()",
    "F.cosine_similarity({}, {}.roll(1, {d}), dim={d})", "{}.diff(dim={d}) / 3", "torch.trapezoid({}, dim={d})",
    "torch.linalg.vector_norm({}, 3, {d})", "{}.norm(1)", "torch.linalg.matrix_norm({})", "{}.cov() * 1.0",
    "F.pairwise_distance({}, {}.flip({d}))", "F.selu({})", "F.celu({}, 0.5)", "F.tanhshrink({})", "F.softmin({}, {d})",
    "{}.cumulative_trapezoid(dim={d})", "{}.xlogy(({}.abs() + 0.5))", "{}.digamma()", "({}.abs() + 0.5).log2()",
    "torch.vander({}.flatten()[:3], 3)", "{}.matrix_exp() if {}.shape[-1] == {}.shape[-2] else {} / 3",
    "torch.var_mean({}, {d}, correction=0)[1]", "{}.softmax({d}).log()", "{} * {}.shape[0]", "{} / {}.shape[{d}]",
    "{}.sin() * torch.arange({}.shape[-1])", "torch.fft.rfft({}, dim={d}).abs()", "torch.fft.fft({}, dim=-1).real",
    "torch.fft.irfft(torch.complex({}, {}.flip({d})), n=2 * {}.shape[-1])", "torch.fft.fft2({}).imag",
    "torch.view_as_real(torch.polar({}.abs(), {}))", "(torch.complex({}, {} + 1) ** 2).imag",
    "torch.vmap(lambda t: t.sin().sum())({})", "torch.vmap(lambda t: F.softmax(t, -1), {d})({}) if {}.dim() > 1 else {}",
    "torch.func.grad(lambda t: (t.sin() ** 2).sum())({})", "torch.func.jvp(torch.tanh, ({},), (torch.ones_like({}),))[1]",
    "torch.utils.checkpoint.checkpoint(lambda t: t.sin().exp() * t, {}, use_reentrant=False)",
]  # fmt: skip
#: Functions whose results have the bits of elements, or exact sums of quarters.
EXACT = [
    "{}.relu()", "{}.abs()", "-{}", "{} * 2", "{} + 1", "{} - 0.25", "{}.clamp(-1, 1.5)", "{} * 1.0",
    "{}.clamp(min=0.25)", "{}.sum({d})", "{}.sum()", "{}.amax({d})", "{}.amin({d}, keepdim=True)",
    "F.leaky_relu({}, 0.25)", "{}.cumsum({d})", "F.hardtanh({})", "F.relu6({})", "{}.neg()",
    "F.threshold({}, 0.5, -1)", "{}.aminmax(dim={d}).max", "{}.nansum({d})", "F.softshrink({})",
    "{}.norm(float('inf'))", "F.hardshrink({})", "{}.trace() if {}.dim() == 2 else {}.sum(-1)", "{}.double()",
    "{}.sum_to_size({}[:1].shape)", "torch.einsum('ij->j', {})", "F.one_hot({}.abs().long(), 12).sum({d}) + {}.sum()",
    "{}.nan_to_num(0.5)", "{}.ldexp(torch.tensor(2))", "{}.new_full(({}.shape[0], 2), 0.5)", "{}.cumsum({d}).flip({d})",
]  # fmt: skip
#: Functions that jump, which only exact values may enter.
JUMPS = [
    "{}.floor()", "{}.ceil()", "{}.round()", "{}.trunc()", "{}.sign()", "{}.frac()", "{}.argmax({d})",
    "{}.argmin({d}, keepdim=True)", "{}.sort({d}, stable=True).values", "{}.sort({d}, stable=True).indices",
    "{}.detach().topk(min(2, {}.shape[{d}]), {d}).values", "{}.cummax({d}).values", "{}.max({d}).values",
    "{}.min({d}).indices", "({} > 0.5)", "({} == {}.amax({d}, keepdim=True))", "{}.ne(0).any({d})",
    "({} >= 0).all({d})", "{}.count_nonzero({d})", "{}.to(torch.int64)", "{} % 1.5", "{}.fmod(0.75)",
    "({} // 0.5)", "{}.detach().kthvalue(1, {d}).values", "{}.heaviside({}.new_ones(()))", "{}.signbit()",
    "torch.bucketize({}, torch.tensor([-1.0, 0.0, 1.5]))", "{}.detach().median({d}).values", "{}.isclose({}.flip({d}))",
    "torch.where({} > 0, {}, {} * 2)", "{}.argsort({d}, stable=True)", "{}.detach().median().expand(2)",
    "torch.searchsorted({}.flatten().sort().values, {}.flatten()[:4])", "{}.cummin({d}).indices", "{}.isin({}.flatten()[:2])",
    "{}.detach().sort({d}, descending=True, stable=True).indices", "{}.unique_consecutive().sum()", "{}.nonzero().sum()",
    "{}[{} > 0].sum() * 0 + 1", "{}.msort()", "{}.detach().mode({d}).values", "{}.floor_divide(0.5)",
]  # fmt: skip
#: Views and copies of elements of any dtype.
VIEWS = [
    "{}.transpose({d}, {e})", "{}.flatten()", "{}.unsqueeze({d})", "{}.squeeze()", "{}.flip({d})",
    "{}.roll(1, {d})", "{}.narrow({d}, 0, max(1, {}.shape[{d}] - 1))", "{}.select({d}, -1)", "{}[..., ::2]",
    "{}[1:]", "{}[..., None, :]", "{}.diagonal(0, {d}, {e})", "{}.unfold({d}, 2, 1)", "{}.chunk(2, {d})[0]",
    "{}.chunk(2, {d})[-1]", "{}.movedim({d}, {e})", "{}.expand(2, *{}.shape)", "{}.repeat_interleave(2, {d})",
    "{}.tile((2,))", "{}.contiguous()", "{}.clone()", "{}.reshape({}.shape[0], -1)", "{}.reshape(-1)",
    "{}.T if {}.dim() == 2 else {}.mT", "{}.unflatten({d}, (1, -1))", "{}.tril()", "{}.triu(1)",
    "torch.cat([{}, {}], {d})", "torch.stack([{}, {}.flip({d})], {d})", "torch.rot90({}, 1, ({d}, {e}))",
    "{}.index_select({d}, torch.tensor([0, 0]))", "{}[[0, -1]]", "{}.detach()", "{}.view({}.shape)",
    "{}.as_strided((2, 2), (2, 1))", "{}.permute(*range({}.dim() - 1, -1, -1))", "{}[:, :1]", "{}[-1:]",
    "{}.split(2, {d})[0]", "{}.unbind({d})[-1]", "{}.take(torch.tensor([0, 1]))", "{}.swapaxes({d}, {e})",
    "{}.expand_as(torch.empty(3, *{}.shape))", "torch.atleast_2d({})", "{}.new_zeros({}.shape)",
    "{}[: {}.shape[0] // 2 + 1]", "{}[{}.shape[0] // 2 :]", "{}.tensor_split(2, {d})[-1]", "{}.hsplit(2)[0]",
    "torch.stack([{}] * 3, {d}).select({d}, 1)", "{}.repeat(2, *[1] * ({}.dim() - 1))", "{}.flip([0, -1])",
    "torch.block_diag({}.flatten(1), {}.flatten(1))", "{}.diag_embed()", "torch.tril({}, -1).T if {}.dim() == 2 else {}",
    "torch.meshgrid({}.flatten()[:3], {}.flatten()[:2], indexing='ij')[1]", "torch.broadcast_to({}, (2, *{}.shape))",
    "{}.index_select({d}, torch.arange({}.shape[{d}]).flip(0))", "{}[:, None].expand(-1, 2, *[-1] * ({}.dim() - 1))",
    "{}[torch.arange({}.shape[0]), ..., 0]", "{}.gather({d}, {}.argsort({d}, stable=True) * 0)", "{}.squeeze({d})",
    "{}.view({}.shape[0], -1)", "{}.flatten({d}, -1)", "torch.cartesian_prod({}.flatten()[:3], {}.flatten()[:2])",
    "torch.combinations({}.flatten()[:4])", "{}.ravel()[1:]", "{}.select({d}, 0).clone()", "{}.moveaxis(0, -1)",
]  # fmt: skip
#: Functions of two float tensors; the flag says whether the result of exact values is exact.
PAIRS = [
    ("{} + {}", True), ("{} - {}", True), ("torch.maximum({}, {})", True), ("torch.minimum({}, {})", True),
    ("{} * {}", False), ("{} / ({}.abs() + 1)", False), ("torch.atan2({}, {}.abs() + 1)", False),
    ("({}.abs() + 0.5) ** {}.clamp(-2, 2)", False), ("torch.addcmul({}, {}, {}, value=0.5)", False),
    ("torch.hypot({}, {}.abs() + 1)", False), ("F.mse_loss({}, {})", False), ("F.smooth_l1_loss({}, {})", False),
    ("{}.matmul({}.mT)", False), ("torch.outer({}.flatten()[:5], {}.flatten()[:6])", False),
    ("{}.logaddexp({})", False), ("torch.cat([{}.flatten(), {}.flatten()])", True), ("{} @ {}", False),
    ("F.linear({}, {})", False), ("torch.where({} > 0.3, {}, {})", True), ("{}.copysign({})", True),
    ("torch.einsum('...i,...i->...', {}, {})", False), ("torch.stack([{}, {}], -1)", True),
    ("F.scaled_dot_product_attention({}, *[{}] * 2)", False), ("torch.baddbmm({}, {}, {}.mT)", False),
    ("F.kl_div(F.log_softmax({}, -1), F.softmax({}, -1), reduction='batchmean')", False),
    ("torch.kron({}.flatten()[:4], {}.flatten()[:5])", False), ("torch.tensordot({}, {}, dims=1)", False),
    ("F.binary_cross_entropy_with_logits({}, {}.sigmoid().detach())", False), ("torch.dist({}, {}, 1)", False),
    ("F.huber_loss({}, {}, delta=0.5)", False), ("F.triplet_margin_loss({}, {}, {} * 0.5)", False),
    ("F.gaussian_nll_loss({}, {}, torch.ones({}.shape))", False), ("{}.baddbmm({}, {}.mT)", False),
    ("F.poisson_nll_loss({}.clamp(-2, 2), {}.abs())", False), ("torch.addmm({}, {}, {}.mT)", False),
    ("F.multilabel_soft_margin_loss({}, ({} > 0).float())", False), ("torch.cross({}[..., :3], {}[..., :3], dim=-1)", False),
    ("F.bilinear({}, {}, torch.linspace(-1, 1, 2 * {}.shape[-1] ** 2).view(2, {}.shape[-1], -1))", False),
    ("torch.addr({}, {}.flatten()[:{}.shape[0]], {}.flatten()[:4])", False), ("torch.vdot({}.flatten(), {}.flatten())", False),
    ("{}.fmax({})", True), ("{}.heaviside({})", True), ("torch.hstack([{}, {}])", True), ("{} if {}.dim() > 1 else {} * 2", True),
    ("torch.scatter({}, -1, torch.tensor([[0]]), {})", True), ("{}.slice_scatter({}[:1], 0, 0, 1)", True),
    ("torch.nn.utils.rnn.pad_sequence([{}, {}[:2]])", True), ("{}.select_scatter({}[0], 0, -1)", True),
    ("F.embedding_bag(torch.tensor([[0, 1], [1, 0]]), {}, per_sample_weights=F.softmax({}.flatten()[:4], 0).view(2, 2), mode='sum')", False),
    ("F.grid_sample({}, {}.flatten()[:8].view(1, 2, 2, 2).expand({}.shape[0], -1, -1, -1).tanh(), align_corners=False)", False),
]  # fmt: skip
INTEGERS = [
    "{} + 1", "{} * 3", "{} // 3", "{} % 3", "{} & 6", "{} ^ 5", "{} | 1", "{} << 1", "{} >> 1", "-{}",
    "{}.abs()", "{}.sum({d})", "{}.amax({d})", "{}.cumsum({d})", "{}.clamp(-2, 3)", "{}.float()", "{} > 0",
    "{}.float() / 4", "{}.sort({d}).values", "{}.to(torch.int32).to(torch.int64)", "{} == 2", "~{}",
    "F.one_hot({} % 4, 4)", "{}.sign()", "{}.bool()", "{}.argmax({d})", "{}.prod({d})", "{} - {}.amin()",
    "torch.div({}, 4, rounding_mode='trunc')", "{}.remainder(-3)", "{}.fmod(-3)", "{} ** 2",
]  # fmt: skip
BOOLEANS = [
    "~{}", "{}.float()", "{}.sum({d})", "{}.any({d})", "{}.all()", "{}.to(torch.int64)", "{} | {}.flip({d})",
    "{} & {}.roll(1, {d})", "{} ^ True", "{}.logical_not()", "{}.cumsum({d})", "{} + {}",
]  # fmt: skip
#: Windows over images, volumes or series: the least and the most rank.
WINDOWS = [
    ("F.avg_pool1d({}, 2)", 2, 3), ("F.max_pool1d({}, 2, 1)", 2, 3), ("F.avg_pool2d({}, 2, 1)", 3, 4),
    ("F.max_pool2d({}, 2, padding=1)", 3, 4), ("F.adaptive_avg_pool2d({}, (2, 3))", 3, 4),
    ("F.interpolate({}, scale_factor=2, mode='nearest')", 3, 4), ("F.pad({}, (1, 2))", 1, 4),
    ("F.interpolate({}, size=(7, 4), mode='bilinear')", 4, 4), ("F.pad({}, (1, 1), mode='reflect')", 2, 3),
    ("F.pad({}, (1, 2), mode='replicate')", 2, 3), ("F.pad({}, (1, 1), mode='circular')", 2, 3),
    ("F.conv1d({}, torch.linspace(-1, 1, 9 * {}.shape[1]).view(3, {}.shape[1], 3), padding=1)", 3, 3),
    ("F.conv2d({}, torch.linspace(-1, 1, 18 * {}.shape[1]).view(2, {}.shape[1], 3, 3), stride=2, padding=1)", 4, 4),
    ("F.conv_transpose1d({}, torch.linspace(-1, 1, 4 * {}.shape[1]).view({}.shape[1], 2, 2), stride=2)", 3, 3),
    ("F.group_norm({}, 1)", 2, 4), ("F.instance_norm({})", 3, 4), ("F.unfold({}, 2)", 4, 4),
    ("F.fold(F.unfold({}, 2), {}.shape[-2:], 2)", 4, 4), ("F.pixel_shuffle({}.repeat(1, 4, 1, 1), 2)", 4, 4),
    ("F.max_unpool2d(*F.max_pool2d({}, 2, return_indices=True), 2)", 4, 4), ("F.avg_pool2d({}, 3, 2, 1, ceil_mode=True)", 4, 4),
    ("F.interpolate({}, size=(3, 5), mode='bicubic')", 4, 4), ("F.interpolate({}, size=(3, 4), mode='area')", 4, 4),
    ("F.conv2d({}, torch.linspace(-1, 1, 9 * {}.shape[1]).view(-1, 1, 3, 3), groups={}.shape[1], padding='same')", 4, 4),
    ("F.conv_transpose2d({}, torch.linspace(-1, 1, 8 * {}.shape[1]).view(-1, 2, 2, 2), dilation=2)", 4, 4),
    ("F.unfold({}, (2, 3), dilation=1, padding=1, stride=2)", 4, 4), ("F.pad({}, (-1, 0, 1, 1), value=0.5)", 3, 4),
    ("F.batch_norm({}, None, None, training=True)", 2, 4), ("F.pixel_unshuffle({}, 2)", 4, 4),
    ("F.adaptive_max_pool1d({}, 2)", 2, 3), ("F.lp_pool1d({}, 2, 2)", 3, 3), ("F.channel_shuffle({}, 2)", 4, 4),
    ("F.interpolate({}, size=5, mode='linear', align_corners=True)", 3, 3), ("F.local_response_norm({}, 2)", 3, 4),
]  # fmt: skip
#: A float tensor, and integers that become indices or booleans that choose.
WITH_OTHERS = [
    ("{x}[{i}.flatten() % {x}.shape[0]]", True), ("{x}.gather({d}, {i} % {x}.shape[{d}])", True),
    ("{x}.index_add(0, {i}.flatten() % {x}.shape[0], {x}.new_ones({i}.numel(), *{x}.shape[1:]))", True),
    ("{x}.scatter_add({d}, {i} % {x}.shape[{d}], torch.ones({i}.shape))", True), ("{x} + {i}", True),
    ("{x}.masked_fill({b}, 2.5)", True), ("torch.where({b}, {x}, 0.5)", True), ("{x} * {b}", True),
    ("torch.where({b}, {x}, {x} * {x})", False), ("{x} / ({i}.abs() + 1)", False), ("{x} * {i}", False),
    ("F.embedding({i} % {x}.shape[0], {x})", True), ("{x}.index_put((({i}.flatten() % {x}.shape[0]),), {x}[:1].sum(), accumulate=True)", False),
    ("F.cross_entropy({x}, ({i}.flatten()[:{x}.shape[0]] % {x}.shape[1]))", False), ("{i} * {b}", True),
    ("{x}.take_along_dim({i} % {x}.shape[{d}], {d})", True), ("torch.where({b}, {i}, -{i})", True),
    ("{x}.scatter_reduce({d}, {i} % {x}.shape[{d}], torch.full({i}.shape, 0.5), 'amax')", True),
    ("{x}.scatter_reduce({d}, {i} % {x}.shape[{d}], torch.full({i}.shape, 0.5), 'mean', include_self=False)", False),
    ("{x}.index_reduce(0, {i}.flatten()[:1] % {x}.shape[0], {x}[:1], 'amax')", True), ("{x}.masked_scatter({b}, {x}.flip(0))", True),
    ("F.nll_loss(F.log_softmax({x}, -1), {i}.flatten()[:{x}.shape[0]] % {x}.shape[-1])", False), ("{x}[{b}].sum()", True),
    ("F.multi_margin_loss({x}, {i}.flatten()[:{x}.shape[0]] % {x}.shape[-1])", False), ("{x}.float_power(2) * {i}", False),
    ("torch.where({b}, {x}, {x}.mean())", False), ("{x}[..., {i}.flatten() % {x}.shape[-1]]", True), ("{x}.pow({i} % 3)", False),
    ("{x}[{i} % {x}.shape[0], ..., 0]", True), ("{x}.masked_fill({b}, -1e30).softmax(-1)", False), ("{b}.to({x}.dtype) - {x}", True),
    ("F.scaled_dot_product_attention({x}, {x}, {x}, attn_mask={b} | {b}.logical_not())", False), ("{x}.logical_xor({b})", True),
]  # fmt: skip
#: A float tensor, and a number that changes.
WITH_NUMBERS = [
    ("{x} + {n}", True), ("{x} * {n}", True), ("{x}.roll({n}, {d})", True), ("{x}[..., {n}:]", True),
    ("{x}.narrow({d}, abs({n}) % {x}.shape[{d}], 1)", True), ("{x}.clamp(max={n})", True), ("{x}.tril({n})", True),
    ("F.pad({x}, (abs({n}), 1))", True), ("torch.full_like({x}, {n})", True), ("{x}[:{n}]", True),
    ("{x}.select(0, {n} % {x}.shape[0])", True), ("torch.arange(abs({n}) + 1) * {x}.sum()", False), ("{x} // {n}", True),
    ("{x}.new_zeros(abs({n}) + 1, 2) + {n}", True), ("{x} / ({n} + 0.5)", False), ("{x}.expand(abs({n}) + 1, *{x}.shape)", True),
    ("torch.where({x} > {n}, {x}, {n})", True), ("{x}.masked_fill({x} < {n}, {n})", True), ("{x} if {n} > 0 else -{x}", True),
    ("{x}.repeat_interleave(abs({n}) + 1, {d})", True), ("{x}[..., {n} % {x}.shape[-1]]", True), ("F.pad({x}, ({n}, 4))", True),
    ("torch.add({x}, {x}, alpha={n})", True), ("{x}.diagonal({n} % 2, 0, -1)", True), ("{x} - {n} * {x}.shape[0]", True),
]  # fmt: skip
#: Statements that write to a value.
WRITES = [
    ("{x}.add_(1)", True), ("{x}.mul_(0.5)", True), ("{x}.relu_()", True), ("{x}.clamp_(-1, 2)", True),
    ("{x}[0] = 1.5", True), ("{x}[..., :1] = {x}[..., -1:]", True), ("{x}[..., 0].zero_()", True),
    ("{x}.sigmoid_()", False), ("{x}.sub_({y})", True), ("{x}.copy_({y})", True), ("{x}.fill_(0.25)", True),
    ("{x}[:1].add_({y}[:1])", True), ("{x}.tanh_()", False), ("{x}.neg_()", True), ("{x}[1:] += 1", True),
    ("{x}.index_fill_({d}, torch.tensor([0]), -1)", True), ("{x}.transpose_(0, -1)", True),
    ("{x}.masked_fill_({x} > 1, 0.75)", True), ("{x}.diagonal(0, 0, 1).mul_(2)", True), ("{x}.unsqueeze_(0)", True),
    ("{x}.addcmul_({y}, {y}, value=0.25)", False), ("{x}.view(-1)[:2] = 0.5", True), ("{x}.div_(4)", True),
    ("{x}.flatten()[1:3] = 0.25", True), ("{x}[torch.tensor([0, -1])] = 0.5", True), ("{x}[{x} > 1] = 0.5", True),
    ("{x}.scatter_({d}, {x}.argsort({d}, stable=True), {x}.flip({d}))", True), ("{x}.squeeze_()", True), ("{x}.T.add_(1)", True),
    ("{x}[torch.tensor([0]), ..., -1] += 1", True), ("{x}.index_copy_(0, torch.tensor([0]), {x}[-1:])", True),
    ("{x}.split(2)[0].mul_(2)", True), ("{x}.transpose(0, -1)[0] = {x}.transpose(0, -1)[-1]", True), ("{x}.exp_().log_()", False),
    ("{x}.index_add_(0, torch.tensor([0]), {x}[-1:])", True), ("{x}.lerp_({y}, 0.25)", False), ("{x}.zero_().add_({y})", True),
    ("{x}[: {x}.shape[0] // 2 + 1] = 1.25", True), ("{x}[{x}.shape[0] // 2 :] *= 2", True), ("{x}.unbind(0)[0].neg_()", True),
    ("{x}[::2] = 0.5", True), ("{x}[..., 1::2].mul_(2)", True), ("{x}[-2::2] = {x}[:1]", True),
]  # fmt: skip


def _of_one(m: Maker, templates: list[str], test: Callable[[torch.Tensor], bool], exact: bool,
            needs_exact: bool = False) -> bool:  # fmt: skip
    name = m.pick(test, needs_exact)
    text = m.random.choice(templates)
    text = text.replace("{d}", str(m.dim(name))).replace("{e}", str(m.dim(name)))
    return m.keep(text.replace("{}", name), exact and name in m.exact)


#: What decides between elements, so that only exact values may enter.
_JUMPING = ("where", "max", "min", "copysign", ">", "heaviside")


def _pair(m: Maker) -> bool:
    text, exact = m.random.choice(PAIRS)
    names = [m.pick(is_float, exact=any(w in text for w in _JUMPING)) for _ in range(3)]
    exact = exact and m.sums_are_exact and all(n in m.exact for n in names)
    for name in names:
        text = text.replace("{}", name, 1)
    return m.keep(text, exact)


def _window(m: Maker) -> bool:
    text, least, most = m.random.choice(WINDOWS)
    name = m.pick(of_rank(least, most), exact="max" in text)
    return m.keep(text.replace("{}", name), "F.pad(" in text and name in m.exact)


def _with_others(m: Maker) -> bool:
    text, exact = m.random.choice(WITH_OTHERS)
    x = m.pick(is_float)
    text = text.replace("{x}", x).replace("{d}", str(m.dim(x)))
    if "{i}" in text:
        text = text.replace("{i}", m.pick(is_int, exact=True))
    if "{b}" in text:
        text = text.replace("{b}", m.pick(is_bool, exact=True))
    return m.keep(text, exact and m.sums_are_exact and x in m.exact)


def _with_number(m: Maker) -> bool:
    numbers = [n for n, v in m.scopes[0].items() if isinstance(v, int) and n[0] == "x"]
    if not numbers:
        return False
    text, exact = m.random.choice(WITH_NUMBERS)
    x = m.pick(is_float, exact=any(w in text for w in ("where", ">", "<", "//")))
    text = text.replace("{x}", x).replace("{d}", str(m.dim(x)))
    text = text.replace("{n}", m.random.choice(numbers))
    return m.keep(text, exact and m.sums_are_exact and x in m.exact)


def _write(m: Maker) -> bool:
    text, exact = m.random.choice(WRITES)
    x, y = m.pick(is_float), m.pick(is_float)
    if ">" in text and x not in m.exact:
        return False
    text = text.replace("{x}", x).replace("{y}", y).replace("{d}", str(m.dim(x)))
    return m.keep(
        text, exact and x in m.exact and ("y" not in text or y in m.exact), in_place=x
    )


KINDS: list[tuple[int, Callable[[Maker], bool]]] = [
    (5, lambda m: _of_one(m, SMOOTH, is_float, exact=False)),
    (3, lambda m: _of_one(m, EXACT, is_float, exact=m.sums_are_exact)),
    (3, lambda m: _of_one(m, JUMPS, is_float, exact=True, needs_exact=True)),
    (6, lambda m: _of_one(m, VIEWS, is_any, exact=True)),
    (4, _pair),
    (2, lambda m: _of_one(m, INTEGERS, is_int, exact=True, needs_exact=True)),
    (1, lambda m: _of_one(m, BOOLEANS, is_bool, exact=True, needs_exact=True)),
    (2, _window),
    (3, _with_others),
    (3, _with_number),
    (3, _write),
]


def make(seed: int) -> Program:
    """The same program for the same seed."""
    maker = Maker(seed)
    weights = [w for w, _ in KINDS]
    wanted = maker.random.randint(2, 14)
    for _ in range(20 * wanted):
        kind = maker.random.choices(KINDS, weights)[0][1]
        try:
            kind(maker)
        except (LookupError, ValueError):
            continue
        if len(maker.program.statements) >= wanted:
            break
    return maker.program


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one statement less, the last first."""
    for i in reversed(range(len(program.statements))):
        kept = program.statements[:i] + program.statements[i + 1 :]
        yield dataclasses.replace(program, statements=kept)
