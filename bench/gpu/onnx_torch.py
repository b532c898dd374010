"""Runs ONNX models of fixed sizes in torch; values that depend only on sizes are precomputed."""

import torch
import torch.nn.functional as F

TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16}


def attributes(node) -> dict:
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _gemm(a, x, w, c=None):
    x = x.T if a.get("transA") else x
    w = w.T if a.get("transB") else w
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    if c is not None and alpha == 1 and beta == 1:
        return torch.addmm(c, x, w)
    y = alpha * (x @ w)
    return y if c is None else y + beta * c


def _conv(a, x, w, b=None):
    pads = a.get("pads", [0] * 4)
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        raise NotImplementedError("uneven pads")
    return F.conv2d(
        x, w, b, a.get("strides", 1), pads[:half], a.get("dilations", 1), a.get("group", 1)
    )


def _max_pool(a, x):
    pads = a.get("pads", [0] * 4)
    return F.max_pool2d(x, a["kernel_shape"], a.get("strides", 1), pads[: len(pads) // 2])


def _layer_norm(a, x, scale, bias=None):
    shape = x.shape[a.get("axis", -1) :]
    return F.layer_norm(x, shape, scale, bias, a.get("epsilon", 1e-5))


def _reshape(a, x, shape):
    sizes = [x.shape[i] if s == 0 and not a.get("allowzero") else s for i, s in enumerate(shape)]
    return x.reshape(sizes)


def _squeeze(a, x, axes=None):
    axes = a.get("axes") if axes is None else axes
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def _unsqueeze(a, x, axes=None):
    axes = a.get("axes") if axes is None else axes
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _slice(a, x, starts, ends, axes=None, steps=None):
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps):
        if step < 1:
            raise NotImplementedError("a slice with a negative step")
        size = x.shape[axis]
        where = [slice(None)] * x.dim()
        where[axis] = slice(max(start, -size), min(end, size), step)
        x = x[tuple(where)]
    return x


def _gather(a, x, at):
    axis = a.get("axis", 0)
    picked = torch.where(at < 0, at + x.shape[axis], at)
    flat = torch.index_select(x, axis, picked.reshape(-1))
    return flat.reshape(*x.shape[:axis], *at.shape, *x.shape[axis:][1:])


def _gather_nd(a, x, at):
    if a.get("batch_dims"):
        raise NotImplementedError("GatherND with batch_dims")
    return x[tuple(at.unbind(-1))]


def _expand(a, x, shape):
    return x.expand(torch.broadcast_shapes(x.shape, tuple(shape)))


def _reduce_mean(a, x, axes=None):
    axes = a.get("axes") if axes is None else axes
    return x.mean(dim=tuple(axes), keepdim=bool(a.get("keepdims", 1)))


def _gelu(a, x):
    how = a.get("approximate", b"none")
    return F.gelu(x, approximate=how.decode() if isinstance(how, bytes) else how)


def _split_max(a, *values):
    out = values[0]
    for value in values[1:]:
        out = torch.maximum(out, value)
    return out


# Operators, and which of their inputs are sizes, which are precomputed and passed as lists.
OPS = {
    "Add": (lambda a, x, y: x + y, ()),
    "And": (lambda a, x, y: x & y, ()),
    "Cast": (lambda a, x: x.to(TYPES[a["to"]]), ()),
    "Concat": (lambda a, *x: torch.cat(x, a["axis"]), ()),
    "Constant": (lambda a: a["value"], ()),
    "Conv": (_conv, ()),
    "Expand": (_expand, (1,)),
    "Gather": (_gather, ()),
    "GatherElements": (lambda a, x, at: torch.gather(x, a.get("axis", 0), at), ()),
    "GatherND": (_gather_nd, ()),
    "Gelu": (_gelu, ()),
    "Gemm": (_gemm, ()),
    "GreaterOrEqual": (lambda a, x, y: x >= y, ()),
    "IsNaN": (lambda a, x: torch.isnan(x), ()),
    "LayerNormalization": (_layer_norm, ()),
    "MatMul": (lambda a, x, y: x @ y, ()),
    "Max": (_split_max, ()),
    "MaxPool": (_max_pool, ()),
    "Mul": (lambda a, x, y: x * y, ()),
    "Range": (lambda a, x, y, z: torch.arange(int(x), int(y), int(z)), ()),
    "ReduceMean": (_reduce_mean, (1,)),
    "Relu": (lambda a, x: F.relu(x), ()),
    "Reshape": (_reshape, (1,)),
    "Slice": (_slice, (1, 2, 3, 4)),
    "Softmax": (lambda a, x: F.softmax(x, a.get("axis", -1)), ()),
    "Squeeze": (_squeeze, (1,)),
    "Transpose": (lambda a, x: x.permute(a.get("perm", list(range(x.dim()))[::-1])), ()),
    "Unsqueeze": (_unsqueeze, (1,)),
    "Where": (lambda a, c, x, y: torch.where(c, x, y), ()),
}


class OnnxModule(torch.nn.Module):
    """A model for inputs of fixed sizes."""

    def __init__(self, path: str, inputs: list, dtype, device: str):
        super().__init__()
        import onnx
        from onnx import numpy_helper

        graph = onnx.load(path).graph
        known = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in graph.initializer}
        self.dtype, self.device, self.steps = dtype, device, []
        self.placed = {}
        names = [i.name for i in graph.input if i.name not in known]
        self.inputs, self.outputs = names, [o.name for o in graph.output]
        values = dict(zip(names, (self.place(x) for x in inputs)))
        for node in graph.node:
            self._add(node, known, values, numpy_helper)

    def place(self, tensor):
        """The tensor on the device, with floats in the model's precision."""
        tensor = tensor.to(self.device)
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def _add(self, node, known, values, numpy_helper) -> None:
        attrs = attributes(node)
        if "value" in attrs:
            attrs["value"] = torch.tensor(numpy_helper.to_array(attrs["value"]))
        (name,) = [o for o in node.output if o]
        if node.op_type == "Shape":
            source = values[node.input[0]] if node.input[0] in values else known[node.input[0]]
            known[name] = torch.tensor(source.shape)[attrs.get("start", 0) : attrs.get("end")]
            return
        if node.op_type not in OPS:
            raise NotImplementedError(f"the operator {node.op_type}")
        function, sizes = OPS[node.op_type]
        fixed, static = [], all(i in known or not i for i in node.input)
        for position, source in enumerate(node.input):
            if not source:
                fixed.append((None, None))
            elif source in known and position in sizes:
                fixed.append((None, known[source].reshape(-1).tolist()))
            elif source in known:
                fixed.append((None, known[source] if static else self._weight(source, known)))
            elif position in sizes:
                raise NotImplementedError(f"{node.op_type}: sizes that depend on data")
            else:
                fixed.append((source, None))
        if static:
            known[name] = function(attrs, *(value for _, value in fixed))
            return
        self.steps.append((function, attrs, fixed, name))
        values[name] = function(attrs, *(values[s] if s else v for s, v in fixed))

    def _weight(self, name, known):
        if name not in self.placed:
            self.placed[name] = self.place(known[name])
        return self.placed[name]

    def forward(self, *inputs):
        values = dict(zip(self.inputs, inputs))
        for function, attrs, fixed, name in self.steps:
            values[name] = function(attrs, *(values[s] if s else v for s, v in fixed))
        return tuple(values[name] for name in self.outputs)
