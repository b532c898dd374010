// Sequences and optionals: built of tensors, changed, taken apart, and passed through bodies. Only
// the tensors that come of them are values that other recipes use.
#include <algorithm>

#include "codegen/ops/row/support.h"
#include "tests/fuzz/lib/recipes.h"

namespace reprise::fuzz {

namespace {

using graph::Items;
using graph::kNone;

constexpr int64_t kOpsetOfLists = 11, kOpsetOfOptionals = 18;

V position(Maker& m, int64_t low, int64_t high) {
  const auto t = m.rng.chance(0.3) ? DType::I32 : DType::I64;
  if (m.rng.chance(0.7)) return m.scalar(t, static_cast<double>(m.rng.in(low, high)));
  return m.fresh(t, {}, Values::between(static_cast<double>(low), static_cast<double>(high)));
}

/// A tensor like v, some of whose rows may be left out or doubled.
V member(Maker& m, V v) {
  const V x = m.operand(m.dtype(v), m.shape(v));
  if (m.rank(x) == 0 || m.dtype(x) == DType::Bool || !m.rng.chance(0.3)) return x;
  AttrMap attrs;
  attrs.set("axis", int64_t{0});
  return m.chain("Concat", {x, m.operand(m.dtype(v), m.shape(v))}, std::move(attrs));
}

/// A sequence whose tensors have one rank, and how many there are.
struct List {
  V v = kNone;
  int64_t size = 0;
};

List constructed(Maker& m) {
  const V x = m.of_rank(0, 4);
  std::vector<V> members{x};
  for (int64_t i = m.rng.in(0, 3); i > 0; --i) members.push_back(member(m, x));
  if (m.rng.chance(0.2)) {
    const V none =
        m.chain("SequenceEmpty", {}, attr("dtype", ops::dtype_to_onnx(m.dtype(x))), kOpsetOfLists);
    return {m.chain("SequenceInsert", {none, x}, {}, kOpsetOfLists), 1};
  }
  const auto size = static_cast<int64_t>(members.size());
  return {m.chain("SequenceConstruct", std::move(members), {}, kOpsetOfLists), size};
}

List divided(Maker& m) {
  const V x = m.of_rank(1, 4);
  const int64_t axis = m.axis(x);
  const auto at = static_cast<size_t>(axis < 0 ? axis + m.rank(x) : axis);
  const int64_t length = m.least(x, static_cast<int64_t>(at));
  AttrMap attrs = attr("axis", axis);
  if (m.rng.chance(0.4)) {
    attrs.set("keepdims", m.rng.in(0, 1));
    return {m.chain("SplitToSequence", {x}, std::move(attrs), kOpsetOfLists), length};
  }
  const int64_t size = m.rng.in(1, 3);
  if (m.rng.chance(0.5) || !m.shape(x)[at].is_const())
    return {m.chain("SplitToSequence", {x, m.scalar(DType::I64, static_cast<double>(size))},
                    std::move(attrs), kOpsetOfLists),
            (length + size - 1) / size};
  const int64_t first = m.rng.in(0, length);
  return {m.chain("SplitToSequence", {x, m.ints({first, length - first})}, std::move(attrs),
                  kOpsetOfLists),
          2};
}

/// Inserts and erases.
List changed(Maker& m, List list) {
  for (int64_t i = m.rng.in(0, 2); i > 0 && list.v != kNone; --i) {
    const bool given = m.rng.chance(0.6);
    const Items& items = m.value(list.v).items;
    if (m.rng.chance(0.6) && items.has_rank() && m.is_nameable(items.shape) &&
        std::ranges::none_of(items.shape, [](const Expr& d) { return d.is_const(-1); })) {
      std::vector<V> inputs{list.v, m.operand(element_of(m.dtype(list.v)), items.shape)};
      if (given) inputs.push_back(position(m, -list.size, list.size));
      list = {m.chain("SequenceInsert", std::move(inputs), {}, kOpsetOfLists), list.size + 1};
    } else if (list.size > 1) {
      std::vector<V> inputs{list.v};
      if (given) inputs.push_back(position(m, -list.size, list.size - 1));
      list = {m.chain("SequenceErase", std::move(inputs), {}, kOpsetOfLists), list.size - 1};
    }
  }
  return list;
}

/// Tensors of a sequence: one of them, all together, or their number.
bool taken(Maker& m, List list) {
  if (list.v == kNone) return false;
  if (m.rng.chance(0.3)) {
    const V held = m.chain("Optional", {list.v}, {}, kOpsetOfOptionals);
    list.v = m.chain("OptionalGetElement", {held}, {}, kOpsetOfOptionals);
  }
  if (m.rng.chance(0.2)) m.add("SequenceLength", {list.v}, {}, 1, kOpsetOfLists);
  if (m.rng.chance(0.5) && list.size > 0)
    return m.add("SequenceAt", {list.v, position(m, -list.size, list.size - 1)}, {}, 1,
                 kOpsetOfLists);
  const Items items = m.value(list.v).items;
  AttrMap attrs;
  const bool stacks = items.shape.empty() || m.rng.chance(0.3);
  attrs.set("axis", stacks ? m.rng.in(-std::ssize(items.shape) - 1, std::ssize(items.shape))
                           : m.rng.in(-std::ssize(items.shape), std::ssize(items.shape) - 1));
  attrs.set("new_axis", int64_t{stacks ? 1 : 0});
  return m.add("ConcatFromSequence", {list.v}, std::move(attrs), 1, kOpsetOfLists);
}

bool list(Maker& m) {
  return taken(m, changed(m, m.rng.chance(0.6) ? constructed(m) : divided(m)));
}

bool optional(Maker& m) {
  const V x = m.any();
  if (m.rng.chance(0.2)) {
    const V none = m.chain("Optional", {}, attr("type", std::string(name_of(m.dtype(x)))), 15);
    return none != kNone && m.add("OptionalHasElement", {none}, {}, 1, kOpsetOfOptionals);
  }
  const V held = m.rng.chance(0.8) ? m.chain("Optional", {x}, {}, kOpsetOfOptionals) : x;
  const bool asked = m.rng.chance(0.3);
  return held != kNone && m.add(asked ? "OptionalHasElement" : "OptionalGetElement", {held}, {}, 1,
                                kOpsetOfOptionals);
}

/// A tensor whose dims bodies can name.
V nameable(Maker& m) {
  for (int tries = 0; tries < 4; ++tries) {
    const V v = m.of_rank(0, 3);
    if (m.is_nameable(m.shape(v)) && m.most_elements(m.shape(v)) <= 200) return v;
  }
  return m.fresh(m.random_float(), {m.rng.in(1, 3), m.rng.in(1, 4)});
}

/// A loop that appends to a sequence, or inserts before its end.
bool growing(Maker& m) {
  if (m.depth() >= 2) return false;
  const V x = nameable(m);
  const Items items = Items::of(m.shape(x));
  const V first = m.chain("SequenceConstruct", {x}, {}, kOpsetOfLists);
  if (first == kNone) return false;
  const int64_t trips = m.rng.in(0, 4);
  const V count = m.fresh(DType::I64, {},
                          Values::between(static_cast<double>(trips), static_cast<double>(trips)));
  Maker body(m);
  const auto same = [&](const HostTensor& t) { return std::vector<HostTensor>(m.runs(), t); };
  body.passed(DType::I64, {}, same(HostTensor::from<int64_t>(DType::I64, {}, {0})));
  const V going =
      body.passed(DType::Bool, {}, same(HostTensor::from<uint8_t>(DType::Bool, {}, {1})));
  const V before = body.passed(m.dtype(first), {}, m.values_of(first), items);
  const V before_x = body.passed(m.dtype(x), m.shape(x), m.values_of(x));
  const V next = body.like(m.dtype(x), m.shape(x));
  if (next == kNone || body.shape(next) != m.shape(x)) return false;
  std::vector<V> inputs{before, m.rng.chance(0.5) ? next : before_x};
  if (m.rng.chance(0.3)) inputs.push_back(body.scalar(DType::I64, -1));
  const V after = body.chain("SequenceInsert", std::move(inputs), {}, kOpsetOfLists);
  if (after == kNone) return false;
  if (!m.add_with_bodies(
          "Loop", {count, kNone, first, x}, {}, {{"body", &body, {going, after, next}}},
          {{m.dtype(first), {}, items}, {m.dtype(x), {m.shape(x).begin(), m.shape(x).end()}}}))
    return false;
  return taken(m, {m.last(0), trips + 1});
}

/// A choice between two sequences.
bool chosen(Maker& m) {
  if (m.depth() >= 2) return false;
  const V x = nameable(m);
  const V both = m.chain("SequenceConstruct", {x, x}, {}, kOpsetOfLists);
  if (both == kNone) return false;
  const Items items = Items::of(m.shape(x));
  const V condition = m.operand(DType::Bool, {});
  Maker yes(m), no(m);
  const auto branch = [&](Maker& body, bool inserts) {
    const V v = body.capture(both);
    if (v == kNone || !inserts) return body.chain("SequenceErase", {v}, {}, kOpsetOfLists);
    return body.chain("SequenceInsert", {v, body.like(m.dtype(x), m.shape(x))}, {}, kOpsetOfLists);
  };
  const V a = branch(yes, true), b = branch(no, m.rng.chance(0.5));
  if (a == kNone || b == kNone || yes.value(a).items != items || no.value(b).items != items)
    return false;
  return m.add_with_bodies("If", {condition}, {},
                           {{"then_branch", &yes, {a}}, {"else_branch", &no, {b}}},
                           {{m.dtype(both), {}, items}}) &&
         taken(m, {m.last(0), 1});
}

}  // namespace

std::span<const Recipe> list_recipes() {
  static constexpr Recipe kRecipes[] = {{"SequenceConstruct", list},
                                        {"SequenceEmpty", list},
                                        {"SequenceInsert", list},
                                        {"SequenceErase", list},
                                        {"SequenceAt", list},
                                        {"SequenceLength", list},
                                        {"SplitToSequence", list},
                                        {"ConcatFromSequence", list},
                                        {"Optional", optional},
                                        {"OptionalGetElement", optional},
                                        {"OptionalHasElement", optional},
                                        {"growing_list", growing},
                                        {"chosen_list", chosen}};
  return kRecipes;
}

}  // namespace reprise::fuzz
