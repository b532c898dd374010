#include "codegen/ops/row/weight_parts.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace reprise::ops {

namespace {

using graph::kNone;
using V = OpBuilder::V;

/// Which inputs of a node are cut with its result along an axis, and along which of their axes.
struct Cut {
  size_t input = 0, axis = 0;
  int64_t positions = 1;  // of the result for each of the input
};

/// How the result of a node can be cut along an axis. Nothing if it cannot.
std::optional<std::vector<Cut>> cuts_of(const graph::Graph& g, const graph::Node& n, size_t axis) {
  if (const auto perm = permutation_of(n))
    return std::vector<Cut>{{0, static_cast<size_t>((*perm)[axis]), 1}};
  if (converts(n)) return std::vector<Cut>{{0, axis, 1}};
  if (!dequantizes(n)) return std::nullopt;
  const Attributes attrs(n);
  const auto quantized = static_cast<size_t>(attrs.get_int("axis"));
  const int64_t block = attrs.get_int("block_size");
  std::vector<Cut> cuts{{0, axis, 1}};
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNone) continue;
    const Shape& s = g.value(n.inputs[i]).shape;
    if (s.size() == g.value(n.inputs[0]).shape.size()) {
      cuts.push_back({i, axis, axis == quantized && block > 0 ? block : 1});
    } else if (s.size() == 1 && axis == quantized) {
      cuts.push_back({i, 0, 1});
    }
  }
  return cuts;
}

/// Whether two nodes do the same to their inputs.
bool have_same_form(const graph::Node& a, const graph::Node& b) {
  if (a.op != b.op || a.inputs.size() != b.inputs.size()) return false;
  if (const auto perm = permutation_of(a)) return perm == permutation_of(b);
  if (converts(a)) return converts(b);
  if (!dequantizes(a) || !dequantizes(b)) return false;
  const Attributes of_a(a), of_b(b);
  return of_a.get_int("axis") == of_b.get_int("axis") &&
         of_a.get_int("block_size") == of_b.get_int("block_size");
}

/// Input `i` of the nodes that compute the values.
std::vector<V> inputs_of(const graph::Graph& g, std::span<const V> list, size_t i) {
  std::vector<V> out;
  for (const V v : list) out.push_back(g.value(v).producer->inputs[i]);
  return out;
}

/// Whether the values differ only in their contents and in their size along the axis.
bool have_same_dims(const graph::Graph& g, std::span<const V> list, size_t axis) {
  const graph::Value& first = g.value(list[0]);
  return std::ranges::all_of(list, [&](V v) {
    const graph::Value& value = g.value(v);
    if (value.dtype != first.dtype || value.storage != first.storage || !is_static(value.shape) ||
        value.shape.size() != first.shape.size() || axis >= value.shape.size())
      return false;
    Shape shape = value.shape;
    shape[axis] = first.shape[axis];
    return shape == first.shape && !element_count(value.shape).is_const(0);
  });
}

bool are_equal(const graph::Graph& g, std::span<const V> list) {
  return std::ranges::all_of(list, [&](V v) {
    if (v == list[0]) return true;
    if (v == kNone || list[0] == kNone) return false;
    const graph::Value& a = g.value(v);
    const graph::Value& b = g.value(list[0]);
    return a.constant && b.constant && !a.joined && !b.joined && a.dtype == b.dtype &&
           a.dtype != DType::String && a.shape == b.shape &&
           std::ranges::equal(a.constant->bytes(), b.constant->bytes());
  });
}

const Cut* find_cut(const std::vector<Cut>& cuts, size_t input) {
  const auto at = std::ranges::find(cuts, input, &Cut::input);
  return at == cuts.end() ? nullptr : &*at;
}

/// A range of a tensor: a copy, unless it is one piece of the tensor's memory.
HostTensor range_of(const HostTensor& t, size_t axis, const PartRange& range) {
  std::vector<int64_t> dims = t.dims();
  int64_t outer = 1, inner = static_cast<int64_t>(size_of(t.dtype()));
  for (size_t d = 0; d < axis; ++d) outer *= dims[d];
  for (size_t d = axis + 1; d < dims.size(); ++d) inner *= dims[d];
  const int64_t size = std::exchange(dims[axis], range.size);
  if (outer == 1 && t.keeps_bytes()) {
    const auto bytes = t.bytes().subspan(static_cast<size_t>(range.begin * inner),
                                         static_cast<size_t>(range.size * inner));
    return HostTensor::borrow(t.dtype(), std::move(dims), bytes, std::make_shared<HostTensor>(t));
  }
  HostTensor out(t.dtype(), std::move(dims));
  for (int64_t o = 0; o < outer; ++o) {
    std::memcpy(out.mutable_bytes().data() + o * range.size * inner,
                t.bytes().data() + (o * size + range.begin) * inner,
                static_cast<size_t>(range.size * inner));
  }
  return out;
}

/// What one position along an axis takes of the largest constant, and how many positions belong
/// together. Nothing if the value cannot be cut.
struct Slab {
  int64_t bytes = 0, positions = 1;
};
std::optional<Slab> slab_of(const graph::Graph& g, V v, size_t axis) {
  const graph::Value& value = g.value(v);
  if (!is_static(value.shape)) return std::nullopt;
  const int64_t size = value.shape[axis].value();
  if (value.constant) {
    if (size == 0 || value.dtype == DType::String) return std::nullopt;
    return Slab{static_cast<int64_t>(value.constant->bytes().size()) / size, 1};
  }
  if (value.producer == nullptr) return std::nullopt;
  const auto cuts = cuts_of(g, *value.producer, axis);
  if (!cuts) return std::nullopt;
  Slab all;
  for (const Cut& cut : *cuts) {
    const auto part = slab_of(g, value.producer->inputs[cut.input], cut.axis);
    if (!part) return std::nullopt;
    all.bytes = std::max(all.bytes, part->bytes / cut.positions);
    all.positions = std::max(all.positions, part->positions * cut.positions);
  }
  return all;
}

}  // namespace

V weight_of(const graph::Graph& g, V v) {
  const graph::Value& value = g.value(v);
  if (value.constant) return v;
  const graph::Node* n = value.producer;
  if (n == nullptr || n->inputs.empty() || n->inputs[0] == kNone) return kNone;
  const bool passes_on = permutation_of(*n) || converts(*n) || dequantizes(*n);
  return passes_on ? weight_of(g, n->inputs[0]) : kNone;
}

int64_t weight_bytes(const graph::Graph& g, V v) {
  const V weight = weight_of(g, v);
  if (weight == kNone) return 0;
  const HostTensor& t = *g.value(weight).constant;
  return t.count() * static_cast<int64_t>(size_of(t.dtype()));
}

std::vector<PartRange> part_ranges(const graph::Graph& g, V v, size_t axis, int64_t most) {
  const auto slab = slab_of(g, v, axis);
  if (!slab || slab->bytes == 0) return {};
  const int64_t size = g.value(v).shape[axis].value();
  const int64_t at_once = most / slab->bytes / slab->positions * slab->positions;
  std::vector<PartRange> ranges;
  if (at_once == 0) return {};
  for (int64_t begin = 0; begin < size; begin += at_once)
    ranges.push_back({begin, std::min(at_once, size - begin)});
  return ranges;
}

V part_of_weight(OpBuilder& c, V v, size_t axis, const PartRange& range) {
  graph::Graph& g = c.rewriter().graph();
  const graph::Value& value = g.value(v);
  if (value.constant) {
    const std::string name = value.name + "[" + std::to_string(range.begin) + ":" +
                             std::to_string(range.begin + range.size) + "]";
    return g.add_constant(name, range_of(*value.constant, axis, range));
  }
  const graph::Node& n = *value.producer;
  std::vector<V> inputs = n.inputs.list();
  const std::vector<Cut> cuts = *cuts_of(g, n, axis);
  const std::string op = n.op;
  const AttrMap attrs = n.attrs;
  for (const Cut& cut : cuts) {
    const PartRange part{range.begin / cut.positions,
                         (range.size + cut.positions - 1) / cut.positions};
    inputs[cut.input] = part_of_weight(c, inputs[cut.input], cut.axis, part);
  }
  return c.op(op, std::move(inputs), attrs);
}

bool can_join(const graph::Graph& g, std::span<const V> list, size_t axis) {
  if (std::ranges::count(list, kNone) > 0 || !have_same_dims(g, list, axis)) return false;
  const graph::Value& first = g.value(list[0]);
  if (first.constant) {
    return first.dtype != DType::String && std::ranges::all_of(list, [&](V v) {
             return g.value(v).constant && !g.value(v).joined;
           });
  }
  const graph::Node* n = first.producer;
  const bool same = n != nullptr && std::ranges::all_of(list, [&](V v) {
                      const graph::Node* other = g.value(v).producer;
                      return other != nullptr && have_same_form(*n, *other);
                    });
  const auto cuts = same ? cuts_of(g, *n, axis) : std::nullopt;
  if (!cuts) return false;
  for (size_t i = 0; i < n->inputs.size(); ++i) {
    const std::vector<V> inputs = inputs_of(g, list, i);
    const Cut* cut = find_cut(*cuts, i);
    if (cut == nullptr ? !are_equal(g, inputs) : !can_join(g, inputs, cut->axis)) return false;
    const auto is_whole = [&](V v) {
      return cut == nullptr || g.value(v).shape[axis].value() % cut->positions == 0;
    };
    if (!std::ranges::all_of(list, is_whole)) return false;
  }
  return true;
}

V join_weights(OpBuilder& c, std::span<const V> list, size_t axis) {
  graph::Graph& g = c.rewriter().graph();
  if (g.value(list[0]).constant) {
    JoinedTensors joined{axis, {}};
    std::string name;
    for (const V v : list) {
      name += (name.empty() ? "" : " + ") + g.value(v).name;
      joined.parts.push_back(*g.value(v).constant);
    }
    return g.add_joined(name, std::move(joined));
  }
  const graph::Node& n = *g.value(list[0]).producer;
  std::vector<V> inputs = n.inputs.list();
  const std::vector<Cut> cuts = *cuts_of(g, n, axis);
  for (const Cut& cut : cuts)
    inputs[cut.input] = join_weights(c, inputs_of(g, list, cut.input), cut.axis);
  const std::string op = n.op;
  const AttrMap attrs = n.attrs;
  return c.op(op, std::move(inputs), attrs);
}

}  // namespace reprise::ops
