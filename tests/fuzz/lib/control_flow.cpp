#include "tests/fuzz/lib/control_flow.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/host/control_flow_kind.h"
#include "tests/support/tensors.h"

namespace reprise::fuzz {

namespace {

using Tensors = std::vector<HostTensor>;

/// Loops of graphs that are generated end before; what is reduced may not.
constexpr int64_t kMostIterations = 200;

/// Bytes of the elements that lie together behind an axis, and how many such blocks there are.
struct Split {
  size_t outer = 1, inner = 1;
  Split(const std::vector<int64_t>& dims, size_t axis, DType t) : inner(size_of(t)) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (d < axis) outer *= static_cast<size_t>(dims[d]);
      if (d > axis) inner *= static_cast<size_t>(dims[d]);
    }
  }
};

Result<Tensors> run_if(const ControlFlow& c) {
  return c.call(test::number(*c.inputs[0], 0) != 0 ? 0 : 1, {});
}

/// What iterations pass on, and what is stacked of them.
struct Iterations {
  Tensors carried;
  std::vector<Tensors> parts;

  Status take(Tensors results, size_t first) {
    for (HostTensor& t : carried) t = std::move(results[first++]);
    for (Tensors& p : parts) {
      if (!p.empty() && p[0].dims() != results[first].dims())
        return invalid_input("iterations give tensors of different shapes");
      p.push_back(std::move(results[first++]));
    }
    return {};
  }
};

Result<Tensors> run_loop(const ControlFlow& c) {
  const graph::Graph& body = *c.node.subgraphs[0].second;
  const size_t carried = body.inputs.size() - 2;
  Iterations it;
  for (size_t i = 0; i < carried; ++i) it.carried.push_back(*c.inputs[2 + i]);
  it.parts.resize(body.outputs.size() - 1 - carried);
  const int64_t trips = c.inputs[0] != nullptr ? c.inputs[0]->data<int64_t>()[0]
                                               : std::numeric_limits<int64_t>::max();
  bool going = c.inputs[1] == nullptr || test::number(*c.inputs[1], 0) != 0;
  for (int64_t i = 0; going && i < trips; ++i) {
    if (i == kMostIterations) return invalid_input("the loop does not end");
    Tensors passed{HostTensor::from<int64_t>(DType::I64, {}, {i}),
                   HostTensor::from<uint8_t>(DType::Bool, {}, {1})};
    passed.insert(passed.end(), it.carried.begin(), it.carried.end());
    RP_ASSIGN(Tensors results, c.call(0, std::move(passed)));
    going = test::number(results[0], 0) != 0;
    RP_TRY(it.take(std::move(results), 1));
  }
  Tensors out = std::move(it.carried);
  for (size_t k = 0; k < it.parts.size(); ++k) {
    const HostTensor like = it.parts[k].empty() ? c.none(1 + carried + k) : it.parts[k][0];
    out.push_back(stacked(it.parts[k], 0, like));
  }
  return out;
}

Result<Tensors> run_scan(const ControlFlow& c) {
  const graph::Graph& body = *c.node.subgraphs[0].second;
  const AttrMap& attrs = c.node.attrs;
  const auto scanned = static_cast<size_t>(attrs.get_int("num_scan_inputs", 0));
  const size_t states = body.inputs.size() - scanned, outputs = body.outputs.size() - states;
  const auto list = [&](const char* name, size_t count) {
    return attrs.get_ints(name, std::vector<int64_t>(count, 0));
  };
  const auto axis = [](int64_t a, int64_t rank) {
    return static_cast<size_t>(a < 0 ? a + rank : a);
  };
  const auto in_axes = list("scan_input_axes", scanned);
  const auto out_axes = list("scan_output_axes", outputs);
  const auto in_reversed = list("scan_input_directions", scanned);
  const auto out_reversed = list("scan_output_directions", outputs);
  Iterations it;
  for (size_t i = 0; i < states; ++i) it.carried.push_back(*c.inputs[i]);
  it.parts.resize(outputs);
  const HostTensor& first = *c.inputs[states];
  const int64_t length = first.dims()[axis(in_axes[0], first.rank())];
  for (int64_t step = 0; step < length; ++step) {
    Tensors passed = it.carried;
    for (size_t k = 0; k < scanned; ++k) {
      const HostTensor& t = *c.inputs[states + k];
      passed.push_back(element_at(t, axis(in_axes[k], t.rank()),
                                  in_reversed[k] != 0 ? length - 1 - step : step));
    }
    RP_ASSIGN(Tensors results, c.call(0, std::move(passed)));
    RP_TRY(it.take(std::move(results), 0));
  }
  Tensors out = std::move(it.carried);
  for (size_t k = 0; k < outputs; ++k) {
    Tensors& parts = it.parts[k];
    const HostTensor like = parts.empty() ? c.none(states + k) : parts[0];
    if (out_reversed[k] != 0) std::reverse(parts.begin(), parts.end());
    out.push_back(stacked(parts, axis(out_axes[k], like.rank() + 1), like));
  }
  return out;
}

}  // namespace

HostTensor stacked(const std::vector<HostTensor>& parts, size_t axis, const HostTensor& like) {
  std::vector<int64_t> dims = like.dims();
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), std::ssize(parts));
  HostTensor out(like.dtype(), dims);
  const Split s(dims, axis, like.dtype());
  for (size_t o = 0; s.inner > 0 && o < s.outer; ++o) {
    for (size_t i = 0; i < parts.size(); ++i)
      std::memcpy(out.mutable_bytes().data() + (o * parts.size() + i) * s.inner,
                  parts[i].bytes().data() + o * s.inner, s.inner);
  }
  return out;
}

HostTensor element_at(const HostTensor& t, size_t axis, int64_t i) {
  std::vector<int64_t> dims = t.dims();
  const auto size = static_cast<size_t>(dims[axis]);
  const Split s(dims, axis, t.dtype());
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  HostTensor out(t.dtype(), dims);
  for (size_t o = 0; s.inner > 0 && o < s.outer; ++o)
    std::memcpy(out.mutable_bytes().data() + o * s.inner,
                t.bytes().data() + (o * size + static_cast<size_t>(i)) * s.inner, s.inner);
  return out;
}

bool is_control_flow(const graph::Node& n) {
  return host::control_flow_of(n.op.str()) != host::ControlFlow::None;
}

Result<std::vector<HostTensor>> run_control_flow(const ControlFlow& c) {
  switch (host::control_flow_of(c.node.op.str())) {
    case host::ControlFlow::If:
      return run_if(c);
    case host::ControlFlow::Loop:
      return run_loop(c);
    case host::ControlFlow::Scan:
      return run_scan(c);
    case host::ControlFlow::None:
      break;
  }
  return internal_error("it has no bodies");
}

}  // namespace reprise::fuzz
