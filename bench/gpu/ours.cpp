#include <algorithm>
#include <numeric>

#include "bench/gpu/contender.h"

namespace reprise::bench::gpu {
namespace {

class Ours final : public Contender {
 public:
  Ours(PackagePtr package, std::shared_ptr<Device> device)
      : package_(std::move(package)), device_(std::move(device)) {}

  Status prepare(const Case& c, const Tensors& values) {
    RP_TRY(open(false));
    const plan::Interface& io = session_->io();
    for (size_t i = 0; i < io.inputs.size(); ++i) RP_TRY(add_input(c, values, io.inputs[i], i));
    for (const plan::Slot& slot : io.outputs) RP_TRY(add_output(slot));
    return {};
  }
  Status run() override {
    RunStats stats;
    RP_TRY(session_->run(inputs_, outputs_, &stats).status());
    submit_us_ = stats.host_submit_us;
    if (!stats.kernel_us.empty())
      device_ms_ = std::accumulate(stats.kernel_us.begin(), stats.kernel_us.end(), 0.0) / 1000;
    return {};
  }
  Status time_on_device() override {
    session_.reset();  // frees its weights and arena before the next session is created
    return open(true);
  }
  double device_ms() const override { return device_ms_; }
  double submit_us() const override { return submit_us_; }
  Result<HostTensor> output(size_t index) override {
    const plan::Slot& slot = session_->io().outputs.at(index);
    HostTensor t(slot.dtype, static_dims(slot.shape));
    RP_TRY(device_->download(*outputs_.at(index).device, 0, t.mutable_bytes()));
    return t;
  }
  int64_t launches() const override {
    const auto& steps = session_->plan().steps;
    return std::count_if(steps.begin(), steps.end(), [](const plan::Step& s) {
      return std::holds_alternative<plan::Launch>(s.what);
    });
  }

 private:
  Status open(bool timestamps) {
    SessionOptions options;
    options.timestamps = timestamps;
    RP_ASSIGN(session_, Session::create(package_, device_, options));
    return {};
  }
  Status add(const plan::Slot& slot, const HostTensor& value, std::vector<Binding>& to) {
    const uint64_t bytes = std::max<uint64_t>((value.bytes().size() + 15) / 16 * 16, 16);
    RP_ASSIGN(auto buffer, device_->allocate(bytes, MemoryUse::Device));
    RP_TRY(device_->upload(*buffer, 0, value.bytes()));
    Binding b;
    b.name = slot.name;
    b.device = buffer.get();
    b.dims = value.dims();
    to.push_back(std::move(b));
    buffers_.push_back(std::move(buffer));
    return {};
  }
  /// Inputs are matched by name. Test data without names is in the model's order.
  Status add_input(const Case& c, const Tensors& values, const plan::Slot& slot, size_t position) {
    const auto named = std::find_if(c.operands.begin(), c.operands.end(), [&](const Operand& o) {
      return !o.constant && o.name == slot.name;
    });
    if (named != c.operands.end())
      return add(slot, values[static_cast<size_t>(named - c.operands.begin())], inputs_);
    if (position < values.size() && c.operands[position].name.empty())
      return add(slot, values[position], inputs_);
    return invalid_input("no value is given for the input '" + slot.name + "'");
  }
  Status add_output(const plan::Slot& slot) {
    if (!is_static(slot.shape))
      return unsupported("the size of the output '" + slot.name + "' depends on the data");
    HostTensor nothing(slot.dtype, static_dims(slot.shape));
    // NaN in every float dtype, so that elements that are not written are detected.
    std::ranges::fill(nothing.mutable_bytes(), std::byte{0xff});
    return add(slot, nothing, outputs_);
  }

  PackagePtr package_;
  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  std::unique_ptr<Session> session_;
  std::vector<Binding> inputs_, outputs_;
  double device_ms_ = -1, submit_us_ = -1;
};

}  // namespace

Result<ContenderPtr> our_contender(const Case& c, const Tensors& values,
                                   const std::shared_ptr<Device>& device,
                                   const CompileOptions& options) {
  RP_ASSIGN(PackagePtr package, c.package(values, device->info(), options));
  auto ours = std::make_unique<Ours>(std::move(package), device);
  RP_TRY(ours->prepare(c, values));
  return ContenderPtr(std::move(ours));
}

}  // namespace reprise::bench::gpu
