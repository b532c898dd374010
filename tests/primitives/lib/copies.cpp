// Copies to shared memory that are not waited for: cp.async, and boxes of tensors with signals.
#include <functional>

#include "tests/primitives/lib/helpers.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;
using kernel::Value;

/// Each invocation copies `lanes` floats, of which 0 to `lanes` exist, and others read them.
void add_async(std::vector<Primitive>& to, int lanes) {
  Builder b("async_copy");
  b.set_workgroup(kTeam);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const int tile = b.shared("tile", Ty::F32, kTeam * static_cast<uint32_t>(lanes));
  const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  b.async_copy(x, local * lanes, tile, local * lanes, lanes, local % (lanes + 1));
  b.copy_commit();
  b.copy_wait(0);
  b.barrier();
  const Value other = (local + 77) % static_cast<int64_t>(kTeam);
  b.store(y, local * lanes, b.shared_load(tile, other * lanes, lanes),
          static_cast<uint32_t>(lanes));
  Primitive p{"cp.async of " + std::to_string(4 * lanes) + " bytes with zeros", finished(b), {}, 1};
  const size_t count = kTeam * static_cast<size_t>(lanes);
  p.launch.buffers = {bytes_of(any_floats(count, 5)), bytes_of(std::vector<float>(count))};
  to.push_back(std::move(p));
}

struct Box {
  std::string name;
  std::vector<uint32_t> box, dims;
  std::vector<int32_t> at;
};

/// One subgroup copies a box; a team awaits it and stores it.
void add_box(std::vector<Primitive>& to, const Box& box) {
  const auto rank = static_cast<uint32_t>(box.box.size());
  Builder b("box_copy");
  b.set_workgroup(2 * kTeam);
  b.require_subgroup_size(32);
  const int x = b.buffer("x", Ty::F16, Access::Read), y = b.buffer("y", Ty::F16, Access::Write);
  TensorView view{static_cast<uint32_t>(x), 2, kernel::Swizzle::None, box.box, 0, {}, {}};
  Primitive p;
  b.scalar("first");
  p.launch.scalars = {0};
  for (uint32_t d = 0; d < rank; ++d) {
    view.dims.push_back(static_cast<uint32_t>(p.launch.scalars.size()));
    b.scalar("dim" + std::to_string(d));
    p.launch.scalars.push_back(box.dims[d]);
  }
  uint32_t count = box.dims[0];
  for (uint32_t d = 1; d < rank; ++d) {
    view.strides.push_back(static_cast<uint32_t>(p.launch.scalars.size()));
    b.scalar("stride" + std::to_string(d));
    p.launch.scalars.push_back(count);
    count *= box.dims[d];
  }
  const auto elements = static_cast<uint32_t>(view.box_elements());
  const int boxes = b.view("boxes", view), tile = b.shared("tile", Ty::F16, elements);
  const int full = b.signal("full", 1, 1);
  b.role({"read", 1, kernel::kTeamSubgroups, 0});
  b.role({"copy", 1, 1, 0});
  std::vector<Val> at;
  for (size_t d = 0; d < 4; ++d) at.push_back(b.i32(d < rank ? box.at[d] : 0));
  const std::function<void()> bodies[] = {
      [&] {
        b.await(full, b.i32(0), b.i32(0));
        const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
        b.if_then(b.lt(local, b.i32(static_cast<int32_t>(elements))),
                  [&] { b.store(y, local, b.shared_load(tile, local)); });
      },
      [&] {
        const Val start = rank == 1   ? at[0]
                          : rank == 2 ? Val(b.compose({at[0], at[1]}))
                                      : Val(b.compose(at));
        b.box_copy(kernel::box_access(boxes, tile, full), start, b.i32(0), b.i32(0), 64);
        b.arrive(full, b.i32(0));
      }};
  b.run_roles(bodies);
  p.name = "box of " + std::to_string(rank) + " dimensions, " + box.name;
  p.kernel = finished(b);
  p.inputs = 1;
  p.hopper = true;
  p.launch.buffers = {small_integers(Ty::F16, count, 9), std::vector<std::byte>(2 * elements)};
  if (rank == 2)
    p.readings.push_back({"the coordinates in reverse order", R"(RP_BOX_COPY("2d", "%3, %4"))",
                          R"(RP_BOX_COPY("2d", "%4, %3"))"});
  to.push_back(std::move(p));
}

/// Phases of two stages that follow each other: the sum of boxes that a subgroup copies as stages
/// become free.
void add_ring(std::vector<Primitive>& to) {
  constexpr uint32_t kBox = 128, kSteps = 7;
  Builder b("ring");
  b.set_workgroup(2 * kTeam);
  b.require_subgroup_size(32);
  const int x = b.buffer("x", Ty::F16, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  b.scalar("first");
  b.scalar("count");
  const int boxes =
      b.view("boxes", {static_cast<uint32_t>(x), 2, kernel::Swizzle::None, {kBox}, 0, {1}, {}});
  const int tile = b.shared("tile", Ty::F16, 2 * kBox), sum = b.local("sum", kernel::kF32);
  const int full = b.signal("full", 2, 1), empty = b.signal("empty", 2, kernel::kTeamSubgroups);
  b.role({"read", 1, kernel::kTeamSubgroups, 0});
  b.role({"copy", 1, 1, 0});
  const std::function<void()> bodies[] = {
      [&] {
        const Value local = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
        b.local_store(sum, b.f32(0));
        b.for_loop(b.i32(0), b.i32(kSteps), b.i32(1), [&](Value i) {
          const Value stage = i % 2;
          b.await(full, stage, i / 2 % 2);
          const Val v = b.convert(b.shared_load(tile, stage * kBox + local), Ty::F32);
          b.local_store(sum, b.add(b.mul(b.local_load(sum), b.f32(2)), v));
          b.arrive(empty, stage);
        });
        b.store(y, local, b.local_load(sum));
      },
      [&] {
        b.for_loop(b.i32(0), b.i32(kSteps), b.i32(1), [&](Value i) {
          const Value stage = i % 2;
          b.await(empty, stage, 1 - i / 2 % 2);
          b.box_copy(kernel::box_access(boxes, tile, full), i * kBox, stage * kBox, stage, kBox);
          b.arrive(full, stage);
        });
      }};
  b.run_roles(bodies);
  Primitive p{"phases of signals", finished(b), {}, 1};
  p.launch.scalars = {0, kBox * kSteps};
  p.launch.buffers = {small_integers(Ty::F16, kBox * kSteps, 11),
                      bytes_of(std::vector<float>(kBox))};
  p.hopper = true;
  to.push_back(std::move(p));
}

}  // namespace

void add_copy_primitives(std::vector<Primitive>& to) {
  for (const int lanes : {1, 2, 4}) add_async(to, lanes);
  const Box boxes[] = {{"inside", {64}, {256}, {24}},
                       {"beyond the end", {64}, {256}, {224}},
                       {"before the beginning", {64}, {256}, {-24}},
                       {"inside", {16, 4}, {64, 16}, {8, 3}},
                       {"beyond both ends", {16, 4}, {64, 16}, {56, 14}},
                       {"before both beginnings", {16, 4}, {64, 16}, {-8, -1}},
                       {"inside", {8, 4, 2}, {32, 8, 4}, {16, 1, 2}},
                       {"beyond all ends", {8, 4, 2}, {32, 8, 4}, {28, 6, 3}},
                       {"before all beginnings", {8, 2, 2, 2}, {16, 4, 4, 4}, {-4, -1, -1, -1}}};
  for (const Box& box : boxes) add_box(to, box);
  add_ring(to);
}

}  // namespace reprise::test
