// The views of kernels: a session writes the device's form of them for each size and each buffer,
// and records nothing for that.
#include <gtest/gtest.h>

#include "fake_device.h"
#include "runtime/session/session.h"
#include "tests/support/buffer_ids.h"

namespace reprise::test {
namespace {

/// x [batch, 4] -> y [batch, 4] by a kernel that reads x through a view, and stores y through
/// another one.
std::shared_ptr<const package::Package> model_of_views() {
  const Shape shape{Expr::symbol(0), Expr(4)};
  package::Package p;
  p.model_name = "m";
  p.io.symbols = {{"batch", 0, 64, 1}};
  p.io.sources = {{SymbolSource::Kind::InputDim, 0, 0}};
  p.io.inputs = {{"x", DType::F32, shape}};
  p.io.outputs = {{"y", DType::F32, shape}};
  p.variants.resize(1);
  p.variants[0].name = "only";
  for (plan::Plan* plan : {&p.host_plan, &p.variants[0].plan}) {
    plan->buffers = {{"x", plan::BufferKind::Input, 0, DType::F32, shape},
                     {"y", plan::BufferKind::Output, 0, DType::F32, shape}};
    plan->steps.resize(1);
  }
  plan::HostCall call;
  call.op = "Relu";
  call.inputs = buffers(0);
  call.outputs = buffers(1);
  p.host_plan.steps[0].what = call;
  plan::Plan& plan = p.variants[0].plan;
  plan.kernels.resize(1);
  plan.kernels[0].name = "copy";
  plan.kernels[0].n_buffers = 2;
  plan.kernels[0].n_scalars = 3;
  TensorView view;
  view.element_bytes = 4;
  view.box = {4, 8};
  view.first = 0;
  view.dims = {2, 1};
  view.strides = {2};
  plan.kernels[0].views = {view, view};
  plan.kernels[0].views[1].buffer = 1;
  plan::Launch launch;
  launch.grid = {Expr::symbol(0), Expr(1), Expr(1)};
  launch.buffers = buffers(0, 1);
  launch.writes = {false, true};
  launch.scalars = {Expr(0), Expr::symbol(0), Expr(4)};
  plan.steps[0].what = launch;
  plan::compute_hazards(plan);
  plan::compute_hazards(p.host_plan);
  return std::make_shared<package::Package>(std::move(p));
}

/// What FakeDevice::write_view wrote.
template <typename T>
T view_at(const FakeLaunch& l, uint32_t view, size_t offset) {
  T v{};
  std::memcpy(&v, l.block + plan::BlockLayout::view_offset(2, 3, view) + offset, sizeof v);
  return v;
}

void copy_through_view(const FakeLaunch& l) {
  const auto* x = reinterpret_cast<const float*>(view_at<uint64_t>(l, 0, 0));
  auto* y = reinterpret_cast<float*>(view_at<uint64_t>(l, 1, 0));
  EXPECT_EQ(y, l.buffer(1));
  const auto rows = view_at<uint64_t>(l, 0, 16);
  for (const uint32_t view : {0, 1}) {
    EXPECT_EQ(view_at<uint64_t>(l, view, 8), 4U);
    EXPECT_EQ(view_at<uint64_t>(l, view, 16), rows);
    EXPECT_EQ(view_at<uint64_t>(l, view, 48), 4U);
    EXPECT_EQ(view_at<uint64_t>(l, view, 56), 16U);
  }
  for (uint64_t i = 0; i < rows * 4; ++i) y[i] = x[i];
}

TEST(SessionViews, FollowSizesAndBuffersWithoutANewRecording) {
  const auto device = std::make_shared<FakeDevice>(
      true, std::map<std::string, FakeKernelFunction>{{"copy", copy_through_view}});
  auto session = Session::create(model_of_views(), device);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const uint64_t warm = device->views;
  const auto run = [&](int64_t rows) {
    std::vector<float> x(static_cast<size_t>(rows * 4));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(rows * 1000) + static_cast<float>(i);
    const HostTensor input =
        HostTensor::borrow(DType::F32, {rows, 4}, std::as_bytes(std::span(x)), nullptr);
    auto r = (*session)->run({{{.name = "x", .host = &input}}});
    EXPECT_TRUE(r.ok()) << r.status().message();
    if (!r.ok()) return;
    const HostTensor& y = (*r)[0];
    EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + y.count()), x);
  };
  run(3);
  const uint64_t recordings = device->counters().recordings;
  EXPECT_EQ(device->views, warm + 2);
  run(3);
  EXPECT_EQ(device->views, warm + 2) << "neither a size nor a buffer has changed";
  run(2);
  EXPECT_EQ(device->views, warm + 4);
  run(60);  // larger buffers lie elsewhere
  EXPECT_EQ(device->views, warm + 6);
  run(0);  // a launch without workgroups, whose view nobody reads
  run(5);
  EXPECT_EQ(device->counters().recordings, recordings);
}

}  // namespace
}  // namespace reprise::test
