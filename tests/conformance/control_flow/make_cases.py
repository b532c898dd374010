#!/usr/bin/env python3
"""Writes the cases of this folder: models with control flow, and what ONNX Runtime makes of them.

Run it with a Python that has onnx and onnxruntime. The tests read cases.tar.xz, which it wrote, so it
only runs when a case changes.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import parser

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from case_writer import archived, write_case

CASES = Path(__file__).resolve().parent / "cases"

# name: (model in ONNX's text form, inputs)
MODELS: dict[str, tuple[str, dict[str, np.ndarray]]] = {}


def case(name: str, model: str, **inputs: np.ndarray) -> None:
    MODELS[name] = (model, inputs)


def floats(*dims: int) -> np.ndarray:
    count = int(np.prod(dims))
    return (
        (np.arange(count, dtype=np.float32) * 0.37 % 2 - 0.9)
        .reshape(dims)
        .astype(np.float32)
    )


HEAD = '<ir_version: 8, opset_import: ["" : 16]>\n'

case(
    "loop_until_condition",
    HEAD
    + """g (float[3] x, float limit) => (float[3] y, float[n] sums) {
  true = Constant <value = bool {1}> ()
  y, sums = Loop <body = b (int64 i, bool going, float[3] v) =>
      (bool again, float[3] next, float sum) {
    next = Add(v, x)
    sum = ReduceSum <keepdims = 0> (next)
    again = Less(sum, limit)
  }> (, true, x)
}""",
    x=np.array([0.5, 1, 1.5], np.float32),
    limit=np.array(20, np.float32),
)

case(
    "loop_counted_by_an_input",
    HEAD
    + """g (int64 n, float[2,4] x, float[4,4] w) => (float[2,4] y, float[m,2,4] all) {
  y, all = Loop <body = b (int64 i, bool going, float[2,4] v) =>
      (bool same, float[2,4] next, float[2,4] seen) {
    same = Identity(going)
    f = Cast <to = 1> (i)
    product = MatMul(v, w)
    next = Tanh(product)
    seen = Add(next, f)
  }> (n, , x)
}""",
    n=np.array(5, np.int64),
    x=floats(2, 4),
    w=floats(4, 4),
)

case(
    "loop_without_iterations",
    HEAD
    + """g (int64 n, float[2,4] x) => (float[2,4] y, float[m,2,4] all) {
  y, all = Loop <body = b (int64 i, bool going, float[2,4] v) =>
      (bool same, float[2,4] next, float[2,4] seen) {
    same = Identity(going)
    next = Neg(v)
    seen = Exp(next)
  }> (n, , x)
}""",
    n=np.array(0, np.int64),
    x=floats(2, 4),
)

case(
    "loop_whose_value_grows",
    HEAD
    + """g (int64 n, float[1,3] x) => (float[r,3] y) {
  y = Loop <body = b (int64 i, bool going, float[k,3] v) => (bool same, float[k2,3] next) {
    same = Identity(going)
    row = Mul(x, x)
    next = Concat <axis = 0> (v, row)
  }> (n, , x)
}""",
    n=np.array(6, np.int64),
    x=floats(1, 3),
)

case(
    "loop_written_out",
    HEAD
    + """g (float[2,4] x, float[4,4] w) => (float[2,4] y, float[3,2,4] all) {
  three = Constant <value = int64 {3}> ()
  true = Constant <value = bool {1}> ()
  y, all = Loop <body = b (int64 i, bool going, float[2,4] v) =>
      (bool same, float[2,4] next, float[2,4] seen) {
    same = Identity(going)
    product = MatMul(v, w)
    next = Tanh(product)
    f = Cast <to = 1> (i)
    seen = Mul(next, f)
  }> (three, true, x)
}""",
    x=floats(2, 4),
    w=floats(4, 4),
)

case(
    "bodies_in_bodies",
    HEAD
    + """g (int64 n, float[3] x, float[3] shift) => (float[3] y, float[m] marks) {
  y, marks = Loop <body = outer (int64 i, bool going, float[3] v) =>
      (bool same, float[3] next, float mark) {
    same = Identity(going)
    sum = ReduceSum <keepdims = 0> (v)
    zero = Constant <value = float {0}> ()
    positive = Greater(sum, zero)
    next, mark = If <
      then_branch = t () => (float[3] a, float ma) {
        a = Loop <body = inner (int64 j, bool g2, float[3] u) => (bool g3, float[3] un) {
          g3 = Identity(g2)
          s = Sub(u, shift)
          un = Sub(s, x)
        }> (n, , v)
        ma = Identity(sum)
      },
      else_branch = e () => (float[3] bb, float mb) {
        bb = Add(v, shift)
        mb = Neg(sum)
      }> (positive)
  }> (n, , x)
}""",
    n=np.array(4, np.int64),
    x=np.array([0.5, 1, -0.25], np.float32),
    shift=np.array([1, 0.5, 0.75], np.float32),
)

case(
    "if_with_branches_of_different_sizes",
    HEAD
    + """g (bool c, float[n,2] x) => (float[m,2] y) {
  t = If <
    then_branch = a () => (float[p,2] u) { u = Concat <axis = 0> (x, x) },
    else_branch = b () => (float[q,2] v) { v = Exp(x) }> (c)
  y = Neg(t)
}""",
    c=np.array(True),
    x=floats(3, 2),
)

SCAN_BODY = """body = b (float[2] state, float[2] step, float w) =>
      (float[2] next, float[2] seen, float total) {
    product = Mul(step, w)
    next = Add(state, product)
    seen = Tanh(next)
    total = ReduceSum <keepdims = 0> (next)
  }"""

case(
    "scan_of_any_length",
    HEAD
    + """g (float[2] s, float[t,2] x, float[t] w) => (float[2] y, float[t,2] all, float[t] sums) {
  y, all, sums = Scan <num_scan_inputs = 2, """
    + SCAN_BODY
    + """> (s, x, w)
}""",
    s=floats(2),
    x=floats(5, 2),
    w=floats(5),
)

case(
    "scan_axes_and_directions",
    HEAD
    + """g (float[2] s, float[2,n] x, float[n] w) => (float[2] y, float[2,n] all, float[n] sums) {
  y, all, sums = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
      scan_input_directions = [1, 0], scan_output_axes = [-1, 0],
      scan_output_directions = [0, 1], """
    + SCAN_BODY
    + """> (s, x, w)
}""",
    s=floats(2),
    x=floats(2, 5),
    w=floats(5),
)

case(
    "scan_written_out",
    HEAD
    + """g (float[2] s, float[2,4] x, float[4] w) => (float[2] y, float[2,4] all, float[4] sums) {
  y, all, sums = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
      scan_input_directions = [1, 0], scan_output_axes = [1, 0],
      scan_output_directions = [0, 1], """
    + SCAN_BODY
    + """> (s, x, w)
}""",
    s=floats(2),
    x=floats(2, 4),
    w=floats(4),
)

case(
    "scan_in_scan",
    HEAD
    + """g (float s, float[a,b] x) => (float y, float[a,b] all) {
  y, all = Scan <num_scan_inputs = 1, body = rows (float so, float[b] row) =>
      (float sn, float[b] line) {
    sn, line = Scan <num_scan_inputs = 1, body = columns (float si, float e) =>
        (float sj, float out) {
      sj = Add(si, e)
      out = Mul(sj, s)
    }> (so, row)
  }> (s, x)
}""",
    s=np.array(0.5, np.float32),
    x=floats(3, 4),
)

case(
    "scan_of_a_batch",
    '<ir_version: 8, opset_import: ["" : 8]>\n'
    + """g (int64[2] lengths, float[2,2] s, float[2,t,2] x) => (float[2,2] y, float[2,t,2] all) {
  y, all = Scan <num_scan_inputs = 1, body = b (float[2] state, float[2] step) =>
      (float[2] next, float[2] seen) {
    next = Add(state, step)
    seen = Tanh(next)
  }> (lengths, s, x)
}""",
    lengths=np.array([4, 2], np.int64),
    s=floats(2, 2),
    x=floats(2, 4, 2),
)


case(
    "if_with_kernels",
    HEAD
    + """g (int64 n, float[2,16] x, float[16,16] w) => (float[2,16] y, float[2] sums) {
  limit = Constant <value = int64 {3}> ()
  axis = Constant <value = int64[1] {1}> ()
  more = Less(limit, n)
  t, u = If <
    then_branch = a () => (float[2,16] p, float[2] q) {
      product = MatMul(x, w)
      p = Tanh(product)
      q = ReduceSum <keepdims = 0> (p, axis)
    },
    else_branch = b () => (float[2,16] r, float[2] s) {
      r = Identity(x)
      s = Constant <value = float[2] {0.5, -0.5}> ()
    }> (more)
  y = Neg(t)
  sums = Exp(u)
}""",
    n=np.array(5, np.int64),
    x=floats(2, 16),
    w=floats(16, 16),
)

case(
    "if_that_passes_values_on",
    HEAD
    + """g (bool c, float[2,4] x) => (float[2,4] y, float[2,4] z, float[2] constant) {
  e = Exp(x)
  y, z, constant = If <
    then_branch = a () => (float[2,4] p, float[2,4] q, float[2] k) {
      p = Tanh(e)
      q = Neg(p)
      k = Constant <value = float[2] {1, 2}> ()
    },
    else_branch = b () => (float[2,4] r, float[2,4] s, float[2] l) {
      r = Identity(e)
      s = Identity(x)
      l = Constant <value = float[2] {3, 4}> ()
    }> (c)
}""",
    c=np.array(False),
    x=floats(2, 4),
)

case(
    "loop_whose_values_change_places",
    HEAD
    + """g (int64 n, float[4] x, float[2] short) =>
    (float[4] ya, float[4] yb, float[4] yc, float[m,4] all, float[m,2] shorts) {
  three = Constant <value = float[4] {3, 3, 3, -3}> ()
  ones = Constant <value = float[4] {1, 2, 1, 2}> ()
  ya, yb, yc, all, shorts = Loop <body = b (int64 i, bool going, float[4] a, float[4] b, float[4] c)
      => (bool same, float[4] an, float[4] bn, float[4] cn, float[4] seen, float[2] tail) {
    same = Identity(going)
    an = Identity(b)
    bn = Identity(a)
    cn = Identity(c)
    f = Cast <to = 1> (i)
    sum = Add(a, f)
    seen = Mul(sum, c)
    tail = Sub(short, f)
  }> (n, , x, three, ones)
}""",
    n=np.array(5, np.int64),
    x=floats(4),
    short=floats(2),
)

case(
    "loop_of_a_constant_without_iterations",
    HEAD
    + """g (int64 n, float[2,4] x) => (float[2,4] y, float[m,2,4] all) {
  zeros = Constant <value = float[2,4] {1, 2, 3, 4, 5, 6, 7, 8}> ()
  y, all = Loop <body = b (int64 i, bool going, float[2,4] v) =>
      (bool same, float[2,4] next, float[2,4] seen) {
    same = Identity(going)
    next = Add(v, x)
    seen = Exp(next)
  }> (n, , zeros)
}""",
    n=np.array(0, np.int64),
    x=floats(2, 4),
)

case(
    "scan_in_place",
    HEAD
    + """g (float[4] s, float[t,4] x, float[t,8] w) => (float[4] y, float[t,4] all, float[t,8] more) {
  y, all, more = Scan <num_scan_inputs = 2, scan_input_directions = [0, 1],
      scan_output_directions = [1, 0], body = b (float[4] state, float[4] step, float[8] wide) =>
      (float[4] next, float[4] seen, float[8] both) {
    next = Add(state, step)
    seen = Tanh(next)
    twice = Concat <axis = 0> (seen, next)
    both = Mul(twice, wide)
  }> (s, x, w)
}""",
    s=floats(4),
    x=floats(5, 4),
    w=floats(5, 8),
)


RANKS = (
    HEAD
    + """g (bool flag, bool other, float[3,4] x, float[4] w) => (float[3,4] y, float[3,4] z, float[4] d) {
  r, fixed = If (flag) <
    then_branch = t () => (float[] rt, float[3,4] ft) {
      rt = ReduceSum <keepdims = 0> (x)
      ft = Neg(x)
    }, else_branch = e () => (float[4] re, float[3,4] fe) {
      re = Mul(w, w)
      fe = Exp(x)
    }>
  alone = Sigmoid(x)
  c = Tanh(fixed)
  d = Mul(r, w)
  size = Abs(r)
  h = Sqrt(size)
  k = Add(h, c)
  inner = If (other) <
    then_branch = it () => (float[k] ir) {
      ir = Neg(h)
    }, else_branch = ie () => (float[1,k] iu) {
      axis = Constant <value = int64[1] {0}> ()
      iu = Unsqueeze(h, axis)
    }>
  sum = Add(inner, alone)
  z = Sub(sum, w)
  y = Mul(k, d)
}"""
)
for flag in (True, False):
    for other in (True, False):
        case(
            f"if_of_different_ranks_{int(flag)}{int(other)}",
            RANKS,
            flag=np.array(flag),
            other=np.array(other),
            x=floats(3, 4),
            w=floats(4),
        )

# Paddle exports such loops: no iteration reads `before`, and `step` has another rank at first.
case(
    "loop_of_other_ranks_at_first",
    HEAD
    + """g (float[2,3] x) => (float[a,3] last, int64[b] steps, float[c] sums) {
  zero = Constant <value = float {0}> ()
  three = Constant <value = float {3}> ()
  starts = Less(zero, three)
  most = Constant <value = int64[1] {1024}> ()
  first = Constant <value = int64 {0}> ()
  last, steps, sums = Loop <body = b (int64 i, bool going, float[a,3] before, int64[b] step) =>
      (bool again, float[a,3] now, int64[b] next, float sum) {
    f = Cast <to = 1> (step)
    now = Add(x, f)
    one = Constant <value = int64[1] {1}> ()
    next = Add(step, one)
    four = Constant <value = int64 {4}> ()
    less = Less(next, four)
    again = Squeeze(less)
    sum = ReduceSum <keepdims = 0> (now)
  }> (most, starts, zero, first)
}""",
    x=floats(2, 3),
)

case(
    "if_of_computed_constants",
    HEAD
    + """g (float[2,3] x) => (float[n] y) {
  size = Constant <value = float {2.5}> ()
  two = Constant <value = float {2}> ()
  half = Div(size, two)
  taken = Greater(size, half)
  y = If (taken) <
    then_branch = t () => (float[n] a) {
      a = ReduceMax <axes = [1], keepdims = 0> (x)
    }, else_branch = e () => (float[2,3] b) {
      b = Neg(x)
    }>
}""",
    x=floats(2, 3),
)


def main() -> None:
    with archived(CASES):
        for name, (text, inputs) in MODELS.items():
            model = parser.parse_model(text)
            model.graph.name = name
            write_case(CASES / name, model, inputs)


if __name__ == "__main__":
    main()
