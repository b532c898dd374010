#include "tests/support/random_moves.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/scalar_eval.h"
#include "tests/support/random_source.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::kI32;
using kernel::ScalarOp;
using kernel::Ty;
using kernel::Val;
using kernel::Value;

constexpr int kGroups = 2;    // workgroups
constexpr int kLargest = 63;  // of all numbers, so that every type holds sums of two

/// Numbers from 0 to kLargest.
using Elements = std::vector<Val>;

class Maker {
 public:
  Maker(uint64_t seed, int owned) : owned_(owned), random_(seed), b_("moves") {}

  Result<RandomMoves> make() {
    b_.set_workgroup(RandomMoves::kWorkgroup);
    const std::vector<Ty> narrow{Ty::I8, Ty::U8, Ty::I16, Ty::U16, Ty::F16, Ty::BF16};
    first_ = b_.mul(b_.convert(b_.builtin(Builtin::GlobalId), Ty::I32), b_.i32(owned_));
    const int from = buffer("from", random_.pick(narrow), Access::Read);
    const int both = buffer("both", random_.pick(narrow), Access::ReadWrite);
    const int to = buffer("to", random_.pick(narrow), Access::Write);
    Elements e = load_all(from);
    if (random_.chance(0.5)) e = through_shared(std::move(e));
    move_parts(both, e);
    if (random_.chance(0.5)) {
      const Val some = b_.lt(b_.builtin(Builtin::LocalId), b_.u32(11));
      b_.if_then(some, [&] { move_parts(both, e); });
    }
    store_all(to, sums(e, load_all(both)));
    RandomMoves out;
    RP_ASSIGN(out.kernel, b_.finish());
    out.buffers = std::move(buffers_);
    return out;
  }

 private:
  int buffer(const std::string& name, Ty t, Access access) {
    const int id = b_.buffer(name, t, access);
    types_.push_back(t);
    const auto size = static_cast<size_t>(kernel::byte_size(t));
    std::vector<std::byte> memory(size * static_cast<size_t>(owned_) * kGroups *
                                  RandomMoves::kWorkgroup);
    for (size_t at = 0; at < memory.size(); at += size) {
      uint64_t bits =
          kernel::bits_of(static_cast<double>(random_.in(0, kLargest)), kernel::compute_type(t));
      if (t == Ty::BF16) bits >>= 16U;
      std::memcpy(&memory[at], &bits, size);
    }
    buffers_.push_back(std::move(memory));
    return id;
  }

  /// Random pieces of all owned elements, each at a multiple of its length: (first, length).
  std::vector<std::pair<int, int>> pieces(int most) {
    std::vector<std::pair<int, int>> out;
    const int usual = static_cast<int>(random_.pick(std::vector<int64_t>{4, 4, 8, 16}));
    for (int at = 0; at < owned_;) {
      int length = random_.chance(0.6) ? usual : 1 << random_.in(0, 4);
      while (length > most || at % length != 0) length /= 2;
      out.emplace_back(at, length);
      at += length;
    }
    if (random_.chance(0.3)) {
      for (size_t i = out.size(); i-- > 1;)
        std::swap(out[i], out[static_cast<size_t>(random_.in(0, static_cast<int64_t>(i)))]);
    }
    return out;
  }

  int most(Ty stored) const { return kernel::kMostAccessBytes / kernel::byte_size(stored); }
  Val place(int at) { return b_.add(first_, b_.i32(at)); }

  /// The lanes of a vector, as numbers.
  void numbers(Val v, int at, Elements& out) {
    for (int l = 0; l < b_.type(v).lanes; ++l)
      out[static_cast<size_t>(at + l)] = b_.convert(b_.extract(v, l), Ty::I32, true);
  }

  /// The vector of the numbers from `at` on.
  Val vector(const Elements& e, int at, int length, Ty t) {
    std::vector<Val> lanes, parts;
    for (int l = 0; l < length; ++l)
      lanes.push_back(b_.convert(e[static_cast<size_t>(at + l)], t, true));
    if (length <= kernel::kPartLanes) return b_.compose(lanes);
    for (int l = 0; l < length; l += kernel::kPartLanes)
      parts.push_back(b_.compose(std::span(lanes).subspan(static_cast<size_t>(l), 4)));
    return b_.compose(parts);
  }

  Ty type(int buffer) const { return types_[static_cast<size_t>(buffer)]; }

  void load(int buffer, int at, int length, Elements& out) {
    numbers(b_.load(buffer, place(at), length, static_cast<uint32_t>(length)), at, out);
  }
  void store(int buffer, int at, int length, const Elements& e) {
    const Val v = vector(e, at, length, kernel::compute_type(type(buffer)));
    b_.store(buffer, place(at), v, static_cast<uint32_t>(length));
  }

  Elements load_all(int buffer) {
    Elements e(static_cast<size_t>(owned_));
    for (const auto& [at, length] : pieces(most(type(buffer)))) load(buffer, at, length, e);
    return e;
  }
  void store_all(int buffer, const Elements& e) {
    for (const auto& [at, length] : pieces(most(type(buffer)))) store(buffer, at, length, e);
  }

  /// Computed in 64 bits, they may not fit devices that have only 32.
  Elements sums(const Elements& a, const Elements& b) {
    const Ty t = random_.chance(0.3) ? Ty::I64 : Ty::I32;
    const Val largest = b_.constant({t, 1}, kLargest);
    Elements out;
    for (size_t i = 0; i < a.size(); ++i) {
      const Val sum = b_.add(b_.convert(a[i], t), b_.convert(b[i], t));
      out.push_back(b_.convert(b_.scalar_op(ScalarOp::BitAnd, {sum, largest}), Ty::I32));
    }
    return out;
  }

  /// Loads and stores of parts of a buffer in any order.
  void move_parts(int buffer, Elements e) {
    const int64_t steps = random_.in(2, 10);
    int at = 0, length = 4;
    for (int64_t s = 0; s < steps; ++s) {
      // Often the neighbour of the last one.
      at = random_.chance(0.6) ? (at + length) % owned_
                               : static_cast<int>(random_.in(0, owned_ / 4 - 1)) * 4;
      length = random_.chance(0.7) ? 4 : 1 << random_.in(0, 4);
      while (length > most(type(buffer)) || at % length != 0) length /= 2;
      if (random_.chance(0.4)) {
        Elements loaded = e;
        load(buffer, at, length, loaded);
        std::ranges::rotate(loaded, loaded.begin() + random_.in(0, owned_ - 1));
        e = sums(e, loaded);
      } else {
        store(buffer, at, length, e);
      }
    }
  }

  /// Stores the elements to a shared array and loads those of the neighbour.
  Elements through_shared(Elements e) {
    const Ty stored = random_.chance(0.5) ? Ty::F16 : Ty::BF16;
    const Ty computed = kernel::compute_type(stored);
    const int shared =
        b_.shared("shared", stored, static_cast<uint32_t>(owned_) * RandomMoves::kWorkgroup);
    const Value local(b_, b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32));
    const Value next = (local + 1) % int64_t{RandomMoves::kWorkgroup};
    for (const auto& [at, length] : pieces(most(stored)))
      b_.shared_store(shared, local * owned_ + at, vector(e, at, length, computed));
    b_.barrier();
    for (const auto& [at, length] : pieces(most(stored)))
      numbers(b_.shared_load(shared, next * owned_ + at, length), at, e);
    return e;
  }

  const int owned_;
  RandomSource random_;
  Builder b_;
  Val first_;
  std::vector<Ty> types_;
  std::vector<std::vector<std::byte>> buffers_;
};

}  // namespace

Result<RandomMoves> random_moves(uint64_t seed, int owned) {
  return Maker(seed, owned).make();
}

}  // namespace reprise::test
