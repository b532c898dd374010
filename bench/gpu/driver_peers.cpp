// Peers that use the driver itself: its copy, and kernels launched into a stream one by one.
#include <cstring>

#include "backends/cuda/kernels.h"
#include "bench/gpu/peers.h"
#include "runtime/plan/block_layout.h"

namespace reprise::bench::gpu {
namespace {

using cuda::OwnedMemory;

class DriverCopy final : public StreamPeer {
 public:
  using StreamPeer::StreamPeer;
  Status prepare(const HostTensor& x) {
    bytes_ = x.bytes().size();
    RP_TRY(add_input(x));
    return add_output(x.dtype(), x.dims());
  }

 protected:
  Status enqueue() override {
    cuda::Driver& d = *context().driver;
    const auto address = [](void* p) {
      return static_cast<cuda::CUdeviceptr>(reinterpret_cast<uintptr_t>(p));
    };
    return d.check(d.fn().cuMemcpyAsync(address(output_memory()), address(input(0)), bytes_,
                                        context().stream()),
                   "cuMemcpyAsync");
  }

 private:
  size_t bytes_ = 0;
};

/// A chain of launches of the only kernel of a package, alternating between two buffers.
class StreamLaunches final : public StreamPeer {
 public:
  using StreamPeer::StreamPeer;
  Status prepare(const plan::Plan& plan, const HostTensor& x) {
    const plan::KernelCode& code = plan.kernels[0];
    const auto* launch = std::get_if<plan::Launch>(&plan.steps[0].what);
    if (!launch || code.n_buffers != 2 || code.n_scalars != 0)
      return internal_error("expected a chain of kernels with one input and one output");
    for (size_t i = 0; i < 3; ++i) grid_[i] = static_cast<unsigned>(launch->grid[i].value());
    RP_TRY(add_input(x));
    RP_TRY(add_input(x));  // the second buffer
    RP_TRY(add_output(x.dtype(), x.dims()));
    RP_ASSIGN(errors_, context().allocate(16));
    RP_ASSIGN(kernel_, cuda::CudaKernel::create(context().driver, code));
    make_blocks(plan.steps.size());
    return {};
  }
  int64_t launches() const override { return static_cast<int64_t>(blocks_.size()); }

 protected:
  Status enqueue() override {
    cuda::Driver& d = *context().driver;
    const std::array<uint32_t, 3>& size = kernel_->workgroup();
    for (std::vector<std::byte>& block : blocks_) {
      void* parameters[] = {block.data()};
      RP_TRY(d.check(
          d.fn().cuLaunchKernel(kernel_->function(), grid_[0], grid_[1], grid_[2], size[0], size[1],
                                size[2], 0, context().stream(), parameters, nullptr),
          "cuLaunchKernel"));
    }
    return {};
  }

 private:
  void make_blocks(size_t launches) {
    const auto number = [](void* p) {
      return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p));
    };
    const uint64_t error = errors_.get();
    uint64_t from = number(input(0));
    for (size_t i = 0; i < launches; ++i) {
      const bool to_output = (launches - 1 - i) % 2 == 0;
      const uint64_t to = number(to_output ? output_memory() : input(1));
      std::vector<std::byte> block(plan::BlockLayout::size(2, 0));
      std::memcpy(block.data() + plan::BlockLayout::kErrorAddress, &error, sizeof error);
      std::memcpy(block.data() + plan::BlockLayout::buffer_offset(0), &from, sizeof from);
      std::memcpy(block.data() + plan::BlockLayout::buffer_offset(1), &to, sizeof to);
      blocks_.push_back(std::move(block));
      from = to;
    }
  }

  OwnedMemory errors_;
  std::unique_ptr<cuda::CudaKernel> kernel_;
  unsigned grid_[3] = {1, 1, 1};
  std::vector<std::vector<std::byte>> blocks_;
};

}  // namespace

Result<ContenderPtr> driver_copy(std::shared_ptr<const PeerContext> context,
                                 const Tensors& values) {
  auto peer = std::make_unique<DriverCopy>(std::move(context));
  RP_TRY(peer->prepare(values[0]));
  return ContenderPtr(std::move(peer));
}

Result<ContenderPtr> stream_launches(const Case& c, std::shared_ptr<const PeerContext> context,
                                     const Tensors& values) {
  RP_ASSIGN(const PackagePtr package,
            c.package(values, context->driver->info, options_for(context->driver->info)));
  auto peer = std::make_unique<StreamLaunches>(std::move(context));
  RP_TRY(peer->prepare(package->variants[0].plan, values[0]));
  return ContenderPtr(std::move(peer));
}

}  // namespace reprise::bench::gpu
