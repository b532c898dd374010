// Kernels that begin before launches before them have ended: each of their mistakes in PTX is
// found.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/kernel/build/builder.h"
#include "tests/ptx/edits.h"
#include "tests/ptx/needs.h"
#include "tests/ptx/ptx_module.h"

namespace reprise::test {
namespace {

using kernel::Access;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

constexpr CudaArch kHopper{true, 90};

/// y[i] = x[i] + 1, with shared memory and a branch.
kernel::Kernel increment() {
  Builder b("increment");
  b.set_workgroup(64);
  const int x = b.buffer("x", Ty::F32, Access::Read), y = b.buffer("y", Ty::F32, Access::Write);
  const Val n = b.param(b.scalar("n"));
  const Val i = b.convert(b.builtin(Builtin::LocalIndex), Ty::I32);
  const int tile = b.shared("tile", Ty::F32, 64);
  b.shared_store(tile, i, b.f32(1.0F));
  b.barrier();
  b.if_then(b.lt(i, n), [&] {
    const Val one = b.shared_load(tile, b.sub(b.i32(63), i));
    b.store(y, i, b.add(b.load(x, i), one));
  });
  auto k = b.finish();
  EXPECT_TRUE(k.ok()) << k.status().message();
  kernel::begin_early(*k);
  return std::move(*k);
}

/// What is wrong with the kernel's PTX after an edit of its lines; empty: nothing.
std::string problem(const std::function<void(std::vector<std::string>&)>& edit,
                    CudaArch arch = kHopper) {
  const std::vector<kernel::Kernel> kernels{increment()};
  const auto module = PtxModule::load(
      kernels,
      [&](std::string& text) {
        std::vector<std::string> lines = lines_of(text);
        edit(lines);
        text = joined(lines);
      },
      arch);
  if (!module.ok()) return module.status().message();
  std::vector<float> x(64), y(64);
  for (size_t i = 0; i < 64; ++i) x[i] = static_cast<float>(i);
  Launch launch;
  launch.buffers.assign(2, std::vector<std::byte>(4 * x.size()));
  std::memcpy(launch.buffers[0].data(), x.data(), 4 * x.size());
  launch.scalars = {50};
  const Status s = module->run(kernels[0], launch);
  if (!s.ok()) return s.message();
  std::memcpy(y.data(), launch.buffers[1].data(), 4 * y.size());
  for (size_t i = 0; i < 50; ++i)
    if (y[i] != x[i] + 1) return "element " + std::to_string(i) + " is wrong";
  return "";
}

size_t line_with(const std::vector<std::string>& lines, const std::string& part) {
  for (size_t n = 0; n < lines.size(); ++n)
    if (lines[n].find(part) != std::string::npos) return n;
  ADD_FAILURE() << "no line has " << part;
  return 0;
}

TEST(PtxEarly, WaitsOnceAndLetsOthersBeginFirst) {
  REPRISE_NEEDS_PTX();
  EXPECT_EQ(problem([](std::vector<std::string>& lines) {
              const size_t wait = line_with(lines, "griddepcontrol.wait");
              EXPECT_LT(line_with(lines, "griddepcontrol.launch_dependents"), wait);
              EXPECT_LT(line_with(lines, "st.shared"), wait);
              EXPECT_GT(line_with(lines, "ld.global"), wait);
            }),
            "");
}

TEST(PtxEarly, EveryMistakeIsFound) {
  REPRISE_NEEDS_PTX();
  const auto without = problem([](std::vector<std::string>& lines) {
    lines.erase(lines.begin() +
                static_cast<std::ptrdiff_t>(line_with(lines, "griddepcontrol.wait")));
  });
  EXPECT_NE(without.find("an access to global memory before griddepcontrol.wait"),
            std::string::npos)
      << without;
  const auto late = problem([](std::vector<std::string>& lines) {
    const size_t wait = line_with(lines, "griddepcontrol.wait"), ret = line_with(lines, "ret;");
    const std::string moved = lines[wait];
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(ret), moved);
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(wait));
  });
  EXPECT_NE(late.find("an access to global memory before griddepcontrol.wait"), std::string::npos)
      << late;
}

/// Code for architectures that cannot await launches has nothing of it, so images for them must not
/// be launched early, which the executor finds.
TEST(PtxEarly, OlderArchitecturesDoNotWait) {
  REPRISE_NEEDS_PTX();
  const auto old = problem(
      [](std::vector<std::string>& lines) {
        for (const std::string& line : lines)
          EXPECT_EQ(line.find("griddepcontrol"), std::string::npos) << line;
      },
      {true, 80});
  EXPECT_NE(old.find("an access to global memory before griddepcontrol.wait"), std::string::npos)
      << old;
}

}  // namespace
}  // namespace reprise::test
