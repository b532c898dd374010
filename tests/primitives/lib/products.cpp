// Matrices: of a subgroup by ldmatrix and mma, of a team by wgmma from swizzled boxes.
#include <functional>

#include "tests/primitives/lib/helpers.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::MatrixUse;
using kernel::Ty;
using kernel::Val;
using kernel::Value;

std::string type_name(Ty type) {
  return type == Ty::F16 ? "f16" : "bf16";
}

/// y = left * right, 16x16 each, whose lines in shared memory are rows or columns.
void add_subgroup(std::vector<Primitive>& to, Ty type, bool left_columns, bool right_columns,
                  bool by_lines) {
  constexpr int kSize = 16, kLine = 24;
  Builder b("product");
  b.set_workgroup(32);
  b.require_subgroup_size(32);
  const int buffers[] = {b.buffer("x", type, Access::Read), b.buffer("w", type, Access::Read)};
  const int y = b.buffer("y", Ty::F32, Access::Write);
  const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const uint32_t align = by_lines ? 8 : 1;
  std::vector<int> matrices;
  for (const int n : {0, 1}) {
    const std::string name = n == 0 ? "left" : "right";
    const int tile = b.shared(name + "_tile", type, kSize * kLine);
    b.for_loop(local, b.i32(kSize * kSize), b.i32(32), [&](Value i) {
      b.shared_store(tile, i / kSize * kLine + i % kSize, b.load(buffers[n], i));
    });
    matrices.push_back(b.matrix(name, n == 0 ? MatrixUse::Left : MatrixUse::Right, type, 16, 16));
    b.barrier();
    b.matrix_load(matrices.back(), tile, b.i32(0), kLine, n == 0 ? left_columns : right_columns,
                  align);
  }
  const int sum = b.matrix("sum", MatrixUse::Sum, Ty::F32, 16, 16);
  const int sums = b.shared("sums", Ty::F32, kSize * kSize);
  b.matrix_zero(sum);
  b.matrix_mul_add(sum, matrices[0], matrices[1]);
  b.matrix_store(sum, sums, b.i32(0), kSize);
  b.barrier();
  b.for_loop(local, b.i32(kSize * kSize), b.i32(32),
             [&](Value i) { b.store(y, i, b.shared_load(sums, i)); });
  const auto order = [](bool columns) { return columns ? "columns" : "rows"; };
  Primitive p{std::string(by_lines ? "ldmatrix and mma" : "mma") + " of " + type_name(type) + ", " +
                  order(left_columns) + " by " + order(right_columns),
              finished(b),
              {},
              2};
  for (const uint32_t seed : {1U, 2U})
    p.launch.buffers.push_back(small_integers(type, kSize * kSize, seed));
  p.launch.buffers.push_back(bytes_of(std::vector<float>(kSize * kSize)));
  if (by_lines)
    p.readings.push_back(
        {"ldmatrix with .trans exchanged", "if (kTransposed) {", "if (!kTransposed) {"});
  to.push_back(std::move(p));
}

struct TeamCase {
  Ty type = Ty::F16;
  uint32_t columns = 64;
  bool left_along_k = true, right_along_k = true;
};

constexpr uint32_t kLine = 64;  // elements of a line: 128 bytes
constexpr uint16_t kApart = 8;  // units of 1,024 bytes from 64 lines to the next 64

/// An operand of 64 values of k: its view, and how it comes to shared memory.
struct Operand {
  int view = -1, shared = -1;
  bool along_k = true;
  uint32_t elements = 0;

  kernel::TeamOperand form() const { return {static_cast<uint16_t>(shared), along_k, kApart}; }
  Val at(Builder& b, int k) const { return b.i32(along_k ? k : k * static_cast<int>(kLine)); }
};

/// Of the left factor if the buffer is the first one.
Operand operand(Builder& b, const std::string& name, uint32_t buffer, const TeamCase& c,
                Primitive& p) {
  const bool along_k = buffer == 0 ? c.left_along_k : c.right_along_k;
  const uint32_t elements = buffer == 0 ? kLine : c.columns;
  const auto first = static_cast<uint32_t>(p.launch.scalars.size());
  const uint32_t dims[] = {along_k ? kLine : elements, along_k ? elements : kLine};
  for (const char* scalar : {"first", "inner", "outer", "stride"}) b.scalar(name + "_" + scalar);
  p.launch.scalars.insert(p.launch.scalars.end(), {0, dims[0], dims[1], dims[0]});
  const uint32_t lines = along_k ? elements : kLine;
  const uint32_t boxes = along_k ? 1 : (elements + kLine - 1) / kLine;
  Operand o;
  o.along_k = along_k;
  o.elements = elements;
  o.view = b.view(name, {buffer,
                         2,
                         kernel::Swizzle::B128,
                         {kLine, lines},
                         first,
                         {first + 1, first + 2},
                         {first + 3}});
  o.shared = b.shared(name + "_tile", c.type, kLine * lines * boxes, kernel::Swizzle::B128);
  return o;
}

void copy(Builder& b, const Operand& o, int full) {
  for (uint32_t from = 0; from < o.elements; from += o.along_k ? o.elements : kLine) {
    const Val at = b.compose({b.i32(static_cast<int>(from)), b.i32(0)});
    b.box_copy(kernel::box_access(o.view, o.shared, full), at,
               b.i32(static_cast<int>(from * kLine)), b.i32(0), 512);
  }
}

void multiply(Builder& b, const Operand& left, const Operand& right, const std::vector<int>& sums,
              int full) {
  for (const int sum : sums) b.matrix_zero(sum);
  b.await(full, b.i32(0), b.i32(0));
  for (int k = 0; k < 64; k += 16)
    b.team_mul_add({static_cast<uint16_t>(sums[0]), static_cast<uint8_t>(sums.size()), left.form(),
                    right.form()},
                   left.at(b, k), right.at(b, k));
  b.matrix_commit();
  b.matrix_await(0);
}

/// Each part of the sums comes to shared memory, and from there to its columns of y.
void store(Builder& b, const std::vector<int>& sums, uint32_t part, int staged, int y) {
  const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const int64_t width = part, columns = width * static_cast<int64_t>(sums.size());
  for (size_t n = 0; n < sums.size(); ++n) {
    if (n > 0) b.barrier(kernel::BarrierScope::Team);
    b.matrix_store(sums[n], staged, b.i32(0), part, false, 2);
    b.barrier(kernel::BarrierScope::Team);
    b.for_loop(local, b.i32(static_cast<int>(kLine * part)), b.i32(kTeam), [&](Value i) {
      const Value column = i % width + static_cast<int64_t>(n) * width;
      b.store(y, i / width * columns + column, b.shared_load(staged, i));
    });
  }
}

std::vector<Reading> team_readings(const TeamCase& c) {
  const auto flags = [&](bool left_flips, bool right_flips) {
    return std::string("p, 1, 1, ") + (c.left_along_k != left_flips ? "0" : "1") + ", " +
           (c.right_along_k != right_flips ? "0" : "1");
  };
  return {{"the left operand transposed", flags(false, false), flags(true, false)},
          {"the right operand transposed", flags(false, false), flags(false, true)},
          {"the two distances of a descriptor exchanged",
           "(unsigned long long)(64u * group) << 16 |\n         64ull << 32",
           "(unsigned long long)(64u * group) << 32 |\n         64ull << 16"}};
}

std::string name_of(const TeamCase& c) {
  const auto major = [](bool along_k) { return along_k ? "K" : "MN"; };
  return "wgmma of " + type_name(c.type) + ", " + std::to_string(c.columns) + " columns, " +
         major(c.left_along_k) + "-major by " + major(c.right_along_k) + "-major";
}

/// y = left * right, 64 x 64 by 64 x columns.
void add_team(std::vector<Primitive>& to, const TeamCase& c) {
  const uint32_t part = std::min(c.columns, kLine);
  Builder b("team_product");
  b.set_workgroup(2 * kTeam);
  b.require_subgroup_size(32);
  b.buffer("x", c.type, Access::Read);
  b.buffer("w", c.type, Access::Read);
  const int y = b.buffer("y", Ty::F32, Access::Write);
  Primitive p;
  const Operand left = operand(b, "left", 0, c, p), right = operand(b, "right", 1, c, p);
  const int staged = b.shared("sums", Ty::F32, kLine * part), full = b.signal("full", 1, 1);
  std::vector<int> sums;
  for (uint32_t n = 0; n < c.columns / part; ++n)
    sums.push_back(
        b.matrix("sum" + std::to_string(n), MatrixUse::Sum, Ty::F32, 64, part, MmaScope::Team));
  b.role({"multiply", 1, kernel::kTeamSubgroups, 232});
  b.role({"copy", 1, 1, 40});
  const std::function<void()> bodies[] = {[&] {
                                            multiply(b, left, right, sums, full);
                                            store(b, sums, part, staged, y);
                                          },
                                          [&] {
                                            copy(b, left, full);
                                            copy(b, right, full);
                                            b.arrive(full, b.i32(0));
                                          }};
  b.run_roles(bodies);
  p.name = name_of(c);
  p.kernel = finished(b);
  p.inputs = 2;
  p.hopper = true;
  p.launch.buffers = {small_integers(c.type, size_t{64} * 64, 1),
                      small_integers(c.type, size_t{64} * c.columns, 2),
                      bytes_of(std::vector<float>(size_t{64} * c.columns))};
  p.readings = team_readings(c);
  to.push_back(std::move(p));
}

}  // namespace

void add_product_primitives(std::vector<Primitive>& to) {
  for (const Ty type : {Ty::F16, Ty::BF16}) {
    for (const bool left : {false, true})
      for (const bool right : {false, true}) add_subgroup(to, type, left, right, true);
    add_subgroup(to, type, false, false, false);
  }
  for (const Ty type : {Ty::F16, Ty::BF16}) {
    for (const uint32_t columns : {8U, 64U, 128U, 256U}) add_team(to, {type, columns, true, true});
    for (const auto& [left, right] : {std::pair{true, false}, {false, true}, {false, false}})
      add_team(to, {type, 128, left, right});
  }
}

}  // namespace reprise::test
