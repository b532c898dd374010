#include "tests/fuzz/lib/onnxruntime.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "codegen/onnx/exporter.h"
#include "tests/support/tensors.h"

namespace reprise::fuzz {

namespace {

constexpr double kSeconds = 20;  // of one model

// A message is lines that end with an empty one, then bytes. Request: "model SIZE", "input NAME
// DTYPE DIM...". Reply: "output DTYPE DIM...", or "refused" with the reason as bytes.
constexpr const char* kScript = R"py(
import os
import struct
import sys

def read(size):
    data = sys.stdin.buffer.read(size)
    if len(data) < size:
        sys.exit()
    return data

def reply(lines, blobs):
    text = "".join(f"{line}\n" for line in [*lines, ""]).encode() + b"".join(blobs)
    with os.fdopen(os.dup(3), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)

missing = None
try:
    import numpy
    import onnxruntime
except ImportError as error:
    missing = str(error)

def answer(message):
    head, data = message.split(b"\n\n", 1)
    at = 0
    feeds = {}
    for line in head.decode().split("\n"):
        kind, *words = line.split()
        if kind == "model":
            model, at = data[: int(words[0])], int(words[0])
            continue
        dims = [int(d) for d in words[2:]]
        count = int(numpy.prod(dims, dtype=numpy.int64))
        feeds[words[0]] = numpy.frombuffer(data, words[1], count, at).reshape(dims)
        at += feeds[words[0]].nbytes
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    used = {x.name for x in session.get_inputs()}
    results = session.run(None, {name: x for name, x in feeds.items() if name in used})
    lines = [" ".join(["output", str(y.dtype), *map(str, y.shape)]) for y in results]
    reply(lines, [numpy.ascontiguousarray(y).tobytes() for y in results])

while True:
    message = read(struct.unpack("<Q", read(8))[0])
    if missing:
        reply(["missing"], [missing.encode()])
        continue
    try:
        answer(message)
    except Exception as error:
        reply(["refused"], [str(error).encode()])
)py";

std::string request_of(const std::string& model, const graph::Graph& g, const Tensors& inputs) {
  std::string lines = "model " + std::to_string(model.size()) + "\n", bytes = model;
  for (size_t i = 0; i < inputs.size(); ++i) {
    lines += "input " + g.value(g.inputs[i]).name + " " + std::string(name_of(inputs[i].dtype()));
    for (const int64_t d : inputs[i].dims()) lines += " " + std::to_string(d);
    lines += "\n";
    const auto data = inputs[i].bytes();
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return lines + "\n" + bytes;
}

Result<HostTensor> output_of(const std::string& line, std::string_view& data) {
  std::istringstream in(line);
  std::string kind, dtype;
  in >> kind >> dtype;
  const std::optional<DType> t = dtype_from_name(dtype);
  if (!t) return unsupported("ONNX Runtime gives " + dtype);
  std::vector<int64_t> dims;
  for (int64_t d = 0; in >> d;) dims.push_back(d);
  HostTensor out(*t, dims);
  const auto bytes = out.mutable_bytes();
  if (data.size() < bytes.size()) return internal_error("the reply of ONNX Runtime is too short");
  std::copy_n(reinterpret_cast<const std::byte*>(data.data()), bytes.size(), bytes.begin());
  data.remove_prefix(bytes.size());
  return out;
}

Result<Tensors> parse_reply(const std::string& reply) {
  const size_t end = reply.find("\n\n");
  if (end == std::string::npos) return internal_error("the reply of ONNX Runtime has no end");
  std::string_view data = std::string_view(reply).substr(end + 2);
  std::istringstream lines(reply.substr(0, end + 1));
  Tensors out;
  for (std::string line; std::getline(lines, line);) {
    if (line == "refused") return unsupported("ONNX Runtime: " + std::string(data));
    if (line == "missing")
      return Status(Code::Usage,
                    std::string(data) + "; install it with: python3 -m pip install onnxruntime");
    RP_ASSIGN(HostTensor t, output_of(line, data));
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace

Result<std::string> onnx_bytes(const graph::Graph& g) {
  onnx::Part part;
  part.inputs = g.inputs;
  part.outputs = g.outputs;
  int64_t opset = 0;
  for (const auto& n : g.nodes()) {
    if (opset != 0 && n->opset != opset) return unsupported("a graph of several opsets");
    opset = n->opset;
    part.nodes.push_back(n.get());
    for (const auto& list : {n->inputs, n->outputs}) {
      for (const graph::ValueId v : list) {
        if (v != graph::kNone && g.value(v).dtype == DType::BF16)
          return unsupported("a graph with bfloat16");
      }
    }
  }
  return onnx::export_part(g, part);
}

namespace {

/// NaN among what is ordered, and infinities on the way. ONNX Runtime also reads beyond empty
/// tensors.
bool is_unusual(const HostTensor& t) {
  if (t.count() == 0) return true;
  for (int64_t i = 0; is_float(t.dtype()) && i < t.count(); ++i) {
    const double v = test::number(t, i);
    if (!std::isfinite(v) || std::fabs(v) > 1000) return true;
  }
  return false;
}

/// Floats beyond the range of an integer, integers that ONNX Runtime computes as fp32 (Shrink), the
/// logarithm of 0 as an integer, and the corners of a dim of 1. Its roots of unity have an error of
/// a unit roundoff even where they are 0, which no error of a term explains (DFT, STFT).
bool is_open(const graph::Graph& g, const graph::Node& n) {
  if (n.outputs[0] == graph::kNone) return false;
  const bool integers = !is_float(g.value(n.outputs[0]).dtype);
  if (n.op == "Cast" || n.op == "CastLike") return integers && is_float(g.value(n.inputs[0]).dtype);
  if (n.op == "Shrink" || n.op == "ReduceLogSum" || n.op == "ReduceLogSumExp") return integers;
  if (n.op == "AffineGrid") {
    const Shape& s = g.value(n.outputs[0]).shape;
    return n.attrs.get_int("align_corners", 0) != 0 &&
           std::any_of(s.begin() + 1, s.end() - 1, [](const Expr& d) { return d.is_const(1); });
  }
  return n.op == "DFT" || n.op == "STFT";
}

}  // namespace

bool is_open(const graph::Graph& g, const Tensors& inputs, const Tensors& expected) {
  return std::ranges::any_of(g.nodes(), [&](const auto& n) { return is_open(g, *n); }) ||
         std::ranges::any_of(inputs, is_unusual) || std::ranges::any_of(expected, is_unusual) ||
         std::ranges::any_of(g.values(), [](const graph::Value& v) {
           return v.constant && is_unusual(*v.constant);
         });
}

OnnxRuntime::OnnxRuntime() : process_({"python3", "-c", kScript}, kSeconds) {}

Result<Tensors> OnnxRuntime::run(const std::string& model, const graph::Graph& g,
                                 const Tensors& inputs) {
  if (!process_.running() && !process_.start())
    return Status(Code::Usage, "cannot start python3, which ONNX Runtime needs");
  bool hung = false;
  process_.send(request_of(model, g, inputs));
  const auto reply = process_.receive(hung);
  if (!reply) {
    process_.stop();
    return unsupported(hung ? "ONNX Runtime does not answer" : "ONNX Runtime crashes");
  }
  return parse_reply(*reply);
}

}  // namespace reprise::fuzz
