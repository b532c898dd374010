#include "codegen/lower/group/group_key.h"

#include <cstring>
#include <unordered_map>

namespace reprise::lower {

namespace {

using graph::kNone;
using graph::Node;
using graph::ValueId;

class Writer {
 public:
  Writer(const graph::Graph& g, const Group& group) : g_(g), group_(group) {
    for (const Node* n : group.nodes) {
      inside_.emplace(n, static_cast<int64_t>(inside_.size()));
    }
  }

  GroupKey write() {
    put(static_cast<int64_t>(group_.kind));
    put(place_of(group_.anchor));
    put(group_.domain);
    put(group_.reduced);
    put(place_of(group_.attention.scores));
    put(int64_t{group_.attention.zero_for_nan} * 2 + int64_t{group_.attention.zero_if_hidden});
    for (const Node* n : group_.nodes) node(*n);
    values({group_.attention.logits, group_.attention.weights, group_.attention.log_sum});
    values(group_.outputs);
    return std::move(out_);
  }

 private:
  int64_t place_of(const Node* n) const {
    const auto it = inside_.find(n);
    return it == inside_.end() ? -1 : it->second;
  }

  void put(int64_t v) { out_.bytes.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void put(const std::string& s) {
    put(static_cast<int64_t>(s.size()));
    out_.bytes += s;
  }
  void put(const Expr& e) {
    if (e.is_const()) {
      put(int64_t{0});
      put(e.value());
      return;
    }
    code_.clear();
    e.encode(code_);
    put(code_);
  }
  void put(float v) {
    int32_t bits = 0;
    std::memcpy(&bits, &v, sizeof bits);
    put(int64_t{bits});
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put(static_cast<int64_t>(list.size()));
    for (const T& v : list) put(v);
  }
  void put(const HostTensor& t) {
    put(static_cast<int64_t>(t.dtype()));
    put(t.dims());
    const auto bytes = t.bytes();
    put(static_cast<int64_t>(bytes.size()));
    out_.bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  void node(const Node& n) {
    put(n.op);
    put(n.domain);
    put(n.opset);
    put(n.origin_op);
    put(static_cast<int64_t>(n.attrs.size()));
    for (const auto& [name, attr] : n.attrs) {
      put(name);
      put(static_cast<int64_t>(attr.index()));
      std::visit([this](const auto& v) { put(v); }, attr);
    }
    values(n.inputs);
    values(n.outputs);
  }

  void values(const std::vector<ValueId>& list) {
    put(static_cast<int64_t>(list.size()));
    for (const ValueId v : list) value(v);
  }

  /// Writes everything that lowering reads of a value when it is first referenced, later its number
  /// only.
  void value(ValueId id) {
    if (id == kNone) return put(int64_t{-1});
    const auto [it, first] = numbers_.emplace(id, static_cast<int64_t>(out_.values.size()));
    put(it->second);
    if (!first) return;
    out_.values.push_back(id);
    const graph::Value& v = g_.value(id);
    put(static_cast<int64_t>(v.dtype));
    put(static_cast<int64_t>(v.storage));
    put(v.shape);
    if (v.constant) {
      constant(*v.constant);
      return form(id);
    }
    // The Transpose before a value is the only node outside the group that lowering reads.
    value(transposed_matrix(g_, id));
  }

  /// Scalars are part of a kernel's code. For larger constants, lowering reads only the dims.
  void constant(const HostTensor& t) {
    const bool contents = t.count() == 1;
    put(contents ? int64_t{2} : int64_t{3});
    if (contents) {
      put(t);
    } else {
      put(t.dims());
    }
  }

  void form(ValueId id) {
    const auto at = group_.packed.find(id);
    put(int64_t{at != group_.packed.end()});
    if (at == group_.packed.end()) return;
    const plan::Packing& packing = at->second;
    put(packing.bits);
    put(static_cast<int64_t>(packing.dims.size()));
    for (const int64_t dim : packing.dims) put(dim);
    put(static_cast<int64_t>(packing.parts.size()));
    for (const plan::Packing::Part& part : packing.parts)
      for (const int64_t v : {part.axis, part.size, part.step}) put(v);
  }

  const graph::Graph& g_;
  const Group& group_;
  std::unordered_map<const Node*, int64_t> inside_;
  std::unordered_map<ValueId, int64_t> numbers_;
  std::vector<int64_t> code_;
  GroupKey out_;
};

}  // namespace

GroupKey key_of(const graph::Graph& g, const Group& group) {
  return Writer(g, group).write();
}

}  // namespace reprise::lower
