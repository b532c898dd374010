// Random stores of boxes: types, swizzles, shapes and ranks of views, at and beyond their edges,
// with more or less room for values that are under way. The interpreter and the executor of PTX
// must leave in memory what the boxes are.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "tests/emit/agreement.h"
#include "tests/kernel/verified.h"
#include "tests/ptx/executors.h"
#include "tests/ptx/needs.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;
using kernel::Value;

constexpr uint32_t kTeamSize = 32 * kernel::kTeamSubgroups;

/// A team writes values to a shared array, from which each of its subgroups stores a box to a view,
/// again and again. Values say which step and which element they are of.
class RandomBoxes {
 public:
  explicit RandomBoxes(uint32_t seed) : rng_(seed), b_("boxes" + std::to_string(seed)) {
    constexpr Ty kTypes[] = {Ty::F16, Ty::BF16, Ty::F32};
    type_ = kTypes[one_of(3)];
    swizzle_ = static_cast<Swizzle>(one_of(4));
    const uint32_t size = bytes(), span = span_of(swizzle_);
    const uint32_t line = span == 0 ? 16 * (1 + one_of(6)) : span;
    box_ = {line / size};
    const uint32_t rank = 1 + one_of(3);
    // A swizzle permutes eight lines. Boxes are whole multiples of 128 bytes.
    if (rank > 1) box_.push_back(8 * (1 + one_of(2)));
    if (rank > 2) box_.push_back(1 + one_of(3));
    if (rank == 1) {
      swizzle_ = Swizzle::None;
      box_[0] = 128 / size * (1 + one_of(256 * size / 128 / 4));
      box_[0] = std::min(box_[0], 256U);
    }
    count_ = std::accumulate(box_.begin(), box_.end(), 1U, std::multiplies<>());
    slots_ = 1 + one_of(3);
    for (const uint32_t b : box_) dims_.push_back(1 + one_of(3 * b));
    place_boxes();
  }

  Result<kernel::Kernel> make() {
    b_.set_workgroup(2 * kTeamSize);
    b_.require_subgroup_size(32);
    const int y = b_.buffer("y", type_, Access::Write);
    TensorView tensor{static_cast<uint32_t>(y), bytes(), swizzle_, box_, 0, {}, {}};
    b_.scalar("zero");
    for (size_t d = 0; d < box_.size(); ++d) {
      b_.scalar("dim" + std::to_string(d));
      tensor.dims.push_back(static_cast<uint32_t>(1 + d));
    }
    for (size_t d = 1; d < box_.size(); ++d) {
      b_.scalar("stride" + std::to_string(d));
      tensor.strides.push_back(static_cast<uint32_t>(box_.size() + d));
    }
    view_ = b_.view("v", tensor);
    shared_ = b_.shared("values", type_, slots_ * kernel::kTeamSubgroups * count_, swizzle_);
    b_.signal("unused", 1, 1);
    b_.role({"store", 1, kernel::kTeamSubgroups, 0});
    b_.role({"idle", 1, 1, 0});
    local_ = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
    subgroup_ = Value(b_, b_.convert(b_.builtin(Builtin::SubgroupIndex), Ty::I32)) %
                static_cast<int64_t>(kernel::kTeamSubgroups);
    const std::function<void()> bodies[] = {[&] { write(); }, [] {}};
    b_.run_roles(bodies);
    return kernel::verified(b_);
  }

  std::vector<uint32_t> scalars() const {
    std::vector<uint32_t> out{0};
    out.insert(out.end(), dims_.begin(), dims_.end());
    for (size_t d = 1; d < box_.size(); ++d) out.push_back(static_cast<uint32_t>(stride(d)));
    return out;
  }
  std::vector<std::byte> untouched() const {
    std::vector<std::byte> out;
    for (size_t n = stride(box_.size()); n-- > 0;) set_element(out, type_, n, bits_of(201));
    return out;
  }
  std::vector<std::byte> expected() const {
    std::vector<std::byte> out = untouched();
    for (uint32_t step = 0; step < steps(); ++step)
      for (uint32_t s = 0; s < kernel::kTeamSubgroups; ++s) expect_box(step, s, out);
    return out;
  }
  std::string text() const {
    std::string out = "swizzle " + std::to_string(static_cast<int>(swizzle_)) + ", room " +
                      std::to_string(slots_) + ", boxes";
    for (const uint32_t b : box_) out += " " + std::to_string(b);
    out += " of";
    for (const uint32_t d : dims_) out += " " + std::to_string(d);
    return out;
  }

 private:
  uint32_t one_of(uint32_t n) { return static_cast<uint32_t>(rng_() % n); }
  uint32_t bytes() const { return static_cast<uint32_t>(kernel::byte_size(type_)); }
  uint32_t steps() const { return static_cast<uint32_t>(order_.size()) / kernel::kTeamSubgroups; }
  /// Elements between neighbours along a dimension: lines are multiples of 16 bytes.
  size_t stride(size_t d) const {
    size_t n = d == 0 ? 1 : (dims_[0] * bytes() + 15) / 16 * (16 / bytes());
    for (size_t k = 1; k < d; ++k) n *= dims_[k];
    return n;
  }
  /// All boxes that touch the view, and some beyond it, in any order; the last ones may be missing.
  void place_boxes() {
    std::array<uint32_t, 3> n{1, 1, 1};
    for (size_t d = 0; d < box_.size(); ++d) n[d] = (dims_[d] + box_[d] - 1) / box_[d] + one_of(2);
    for (uint32_t z = 0; z < n[2]; ++z)
      for (uint32_t y = 0; y < n[1]; ++y)
        for (uint32_t x = 0; x < n[0]; ++x) order_.push_back({x, y, z});
    std::ranges::shuffle(order_, rng_);
    while (order_.size() % kernel::kTeamSubgroups != 0) {
      // Beyond the edge, each somewhere else.
      order_.push_back({n[0] + static_cast<uint32_t>(order_.size()), 0, 0});
    }
  }
  static uint32_t value_of(uint32_t step, uint32_t n) { return (step * 37 + n) % 200; }
  uint64_t bits_of(uint32_t value) const {
    const uint64_t bits = kernel::bits_of(static_cast<double>(value), kernel::compute_type(type_));
    return type_ == Ty::BF16 ? bits >> 16 : bits;
  }

  void write() {
    const uint32_t part = kernel::kTeamSubgroups * count_;
    for (uint32_t step = 0; step < steps(); ++step) {
      // As many stores may be under way as leave room for these values.
      b_.box_drain(one_of(slots_));
      b_.barrier(kernel::BarrierScope::Team);
      const Value first = b_.i32(static_cast<int>(step % slots_ * part));
      write_values(first, step);
      b_.barrier(kernel::BarrierScope::Team);
      b_.box_store(kernel::box_access(view_, shared_), coordinates(step),
                   first + subgroup_ * static_cast<int64_t>(count_), count_);
    }
    b_.box_drain(0);
  }
  /// By parts of 16 bytes, as arrays with a swizzle have it.
  void write_values(const Value& first, uint32_t step) {
    const uint32_t lanes = 16 / bytes(), parts = kernel::kTeamSubgroups * count_ / lanes;
    const auto whole = static_cast<int>((parts + kTeamSize - 1) / kTeamSize);
    b_.for_loop(b_.i32(0), b_.i32(whole), b_.i32(1), [&](Value i) {
      const Value n = i * static_cast<int64_t>(kTeamSize) + local_;
      b_.if_then(n < static_cast<int64_t>(parts), [&] {
        std::vector<Val> values;
        for (uint32_t l = 0; l < lanes; ++l) {
          const Value number = (n * static_cast<int64_t>(lanes) + int64_t{l + step * 37}) % 200;
          values.push_back(b_.convert(number, kernel::compute_type(type_)));
        }
        b_.shared_store(shared_, first + n * static_cast<int64_t>(lanes), vector_of(values));
      });
    });
  }
  Val vector_of(const std::vector<Val>& values) {
    if (values.size() <= kernel::kPartLanes) return b_.compose(values);
    std::vector<Val> parts;
    for (size_t l = 0; l < values.size(); l += kernel::kPartLanes)
      parts.push_back(b_.compose(std::span(values).subspan(l, kernel::kPartLanes)));
    return b_.compose(parts);
  }
  Val coordinates(uint32_t step) {
    std::vector<Val> out;
    for (size_t d = 0; d < box_.size(); ++d) {
      Value at = b_.i32(0);
      for (uint32_t s = 0; s < kernel::kTeamSubgroups; ++s) {
        const auto place = static_cast<int>(order_[step * kernel::kTeamSubgroups + s][d] * box_[d]);
        at = Value(b_, b_.select(b_.eq(subgroup_, b_.i32(static_cast<int>(s))), b_.i32(place), at));
      }
      out.push_back(at);
    }
    if (out.size() == 3) out.push_back(b_.i32(0));
    return out.size() == 1 ? out[0] : b_.compose(out);
  }
  void expect_box(uint32_t step, uint32_t subgroup, std::vector<std::byte>& out) const {
    const auto& tile = order_[step * kernel::kTeamSubgroups + subgroup];
    for (uint32_t n = 0; n < count_; ++n) {
      size_t at = 0;
      uint32_t rest = n;
      bool inside = true;
      for (size_t d = 0; d < box_.size(); ++d) {
        const uint32_t c = tile[d] * box_[d] + rest % box_[d];
        rest /= box_[d];
        inside = inside && c < dims_[d];
        at += c * stride(d);
      }
      if (inside) set_element(out, type_, at, bits_of(value_of(step, subgroup * count_ + n)));
    }
  }

  std::mt19937 rng_;
  kernel::Builder b_;
  Ty type_ = Ty::F16;
  Swizzle swizzle_ = Swizzle::None;
  std::vector<uint32_t> box_, dims_;  // innermost first
  uint32_t count_ = 0, slots_ = 1;
  int view_ = 0, shared_ = 0;
  Value local_, subgroup_;
  std::vector<std::array<uint32_t, 3>> order_;  // of boxes, four of each step
};

void expect_agreement_of_boxes(uint32_t first, uint32_t count) {
  REPRISE_NEEDS_PTX();
  std::vector<kernel::Kernel> kernels;
  kernels.reserve(count);
  for (uint32_t seed = first; seed < first + count; ++seed) {
    auto k = RandomBoxes(seed).make();
    ASSERT_TRUE(k.ok()) << "seed " << seed << ": " << k.status().message();
    ASSERT_TRUE(kernel::legalize(*k, {.exact = true}).ok());
    kernels.push_back(std::move(*k));
  }
  for (const ptx::Completion copies :
       {ptx::Completion::Early, ptx::Completion::Late, ptx::Completion::Random}) {
    const auto executors = Executors::load(kernels, copies, {false, 90, true});
    ASSERT_TRUE(executors.ok()) << executors.status().message();
    for (uint32_t n = 0; n < count; ++n) {
      const RandomBoxes boxes(first + n);
      SCOPED_TRACE("seed " + std::to_string(first + n) + ": " + boxes.text());
      for (const auto& [name, execute] : executors->all()) {
        std::vector<std::byte> memory = boxes.untouched();
        const Status s = execute(kernels[n], {1, 1, 1}, {memory}, boxes.scalars());
        ASSERT_TRUE(s.ok()) << name << ": " << s.message();
        EXPECT_TRUE(memory == boxes.expected()) << name;
      }
    }
  }
}

TEST(PtxHopper, RandomStoresOfBoxes) {
  expect_agreement_of_boxes(0, 12);
}

TEST(PtxHopper, FullRandomStoresOfBoxes) {
  expect_agreement_of_boxes(1000, 120);
}

}  // namespace
}  // namespace reprise::test
