#include "apps/reprise/device_times.h"

#include <cstring>
#include <optional>
#include <utility>

#include "apps/common/launch_bytes.h"
#include "apps/reprise/machine_code.h"
#include "codegen/device_model/model.h"
#include "codegen/nvrtc/images.h"
#include "runtime/plan/block_layout.h"

namespace reprise::app {

namespace {

using device_model::Device;
using device_model::KernelFacts;
using device_model::Program;
using device_model::Times;
using plan::BlockLayout;

/// A kernel as the model reads it.
struct TimedCode {
  Program program;
  double ratio = 1;      // instructions of the device for each that the program has
  bool is_sass = false;  // it was disassembled
  double resident = 1;   // workgroups on a multiprocessor at a time
};

/// How many registers a kernel has that only a driver compiles.
constexpr uint32_t kUnknownRegisters = 64;

class Reader {
 public:
  Reader(const package::CompiledPlan& compiled, const Device& device, std::string nvrtc)
      : compiled_(compiled), device_(device), nvrtc_(std::move(nvrtc)) {
    codes_.resize(compiled.plan.kernels.size());
  }

  /// Each kernel is read once.
  Result<const TimedCode*> read(uint32_t kernel) {
    if (!codes_[kernel]) {
      RP_ASSIGN(codes_[kernel], decoded(compiled_.plan.kernels[kernel]));
    }
    return &*codes_[kernel];
  }

 private:
  Result<std::string> ptx_of(const plan::KernelCode& k, const CudaArch& arch) {
    if (arch.ptx) return std::string(reinterpret_cast<const char*>(k.image.data()), k.image.size());
    if (k.cuda.empty())
      return unsupported("the package keeps no CUDA text of kernel '" + k.name +
                         "', which --device-model reads: give the model instead of the package, "
                         "or compile with --keep-source");
    const CudaArch ptx{true, arch.number, arch.specific};
    if (!library_) {
      RP_ASSIGN(library_, nvrtc::Library::open(nvrtc_, {{ptx}}));
    }
    return nvrtc::ptx_of(*library_, k, ptx);
  }

  Result<TimedCode> decoded(const plan::KernelCode& k) {
    const auto arch = CudaArch::parse(compiled_.predicate.cuda_arch);
    if (!arch) return internal_error("the variant has no architecture");
    RP_ASSIGN(const std::string ptx, ptx_of(k, *arch));
    TimedCode code;
    RP_ASSIGN(code.program, device_model::parse_ptx(ptx));
    plan::KernelCode sized = k;
    if (sized.usage.registers == 0) sized.usage = {kUnknownRegisters, 0, k.shared_bytes, 0};
    const auto occupancy = occupancy_of(sized, device_.architecture);
    code.resident = occupancy ? std::max(1U, occupancy->workgroups) : 1;
    const std::optional<MachineCode> machine = arch->ptx ? std::nullopt : machine_.read(k, false);
    if (machine) {
      code.ratio = machine->instructions / std::max(1.0, device_model::slots_of(code.program));
      code.is_sass = true;
    }
    return code;
  }

  const package::CompiledPlan& compiled_;
  const Device& device_;
  std::string nvrtc_;
  std::shared_ptr<const nvrtc::Library> library_;
  MachineCodeReader machine_;
  std::vector<std::optional<TimedCode>> codes_;
};

/// The parameter block of a launch: an address far from the others for each buffer. Nothing if a
/// size is not known.
std::optional<std::vector<std::byte>> block_of(const plan::Launch& launch) {
  const size_t buffers = launch.buffers.size(), scalars = launch.scalars.size();
  std::vector<std::byte> block(BlockLayout::size(buffers, scalars));
  for (size_t n = 0; n <= buffers; ++n) {
    const uint64_t address = uint64_t{n + 1} << 36;
    const uint32_t at = n < buffers ? BlockLayout::buffer_offset(n) : BlockLayout::kErrorAddress;
    std::memcpy(&block[at], &address, sizeof address);
  }
  for (size_t n = 0; n < scalars; ++n) {
    if (!launch.scalars[n].is_const()) return {};
    const auto value = static_cast<int32_t>(launch.scalars[n].value());
    std::memcpy(&block[BlockLayout::scalar_offset(buffers, n)], &value, sizeof value);
  }
  return block;
}

/// A launch, and what the model says of it.
struct Modelled {
  KernelFacts facts;
  Times times;
  bool is_sass = false;
};

/// Nothing if sizes are not known.
Result<std::optional<Modelled>> model_launch(const plan::Plan& p, const plan::Launch& launch,
                                             Reader& reader, const Device& device) {
  const auto block = block_of(launch);
  const int64_t read = bytes_moved(p, launch, false), written = bytes_moved(p, launch, true);
  device_model::Start start;
  start.workgroup = p.kernels[launch.kernel].workgroup;
  Modelled out;
  for (size_t n = 0; n < 3; ++n) {
    if (!launch.grid[n].is_const()) return std::optional<Modelled>();
    start.grid[n] = static_cast<uint32_t>(launch.grid[n].value());
    out.facts.groups *= start.grid[n];
  }
  if (!block || read < 0 || written < 0) return std::optional<Modelled>();
  start.block = *block;
  RP_ASSIGN(const TimedCode* const code, reader.read(launch.kernel));
  RP_ASSIGN(out.facts.work, device_model::walk(code->program, start, device.latencies));
  out.facts.resident = code->resident;
  out.facts.bytes = static_cast<double>(read + written);
  out.facts.instruction_ratio = code->ratio;
  out.is_sass = code->is_sass;
  out.times = device_model::predict(out.facts, device);
  return std::optional(out);
}

Json terms_json(const Times& t) {
  return {{"issue_ms", t.issue},   {"matrix_ms", t.matrix}, {"special_ms", t.special},
          {"shared_ms", t.shared}, {"l2_ms", t.l2},         {"dram_ms", t.dram},
          {"chain_ms", t.chain},   {"waves_ms", t.waves},   {"launch_ms", t.launch}};
}

Json row_json(const std::string& kernel, const plan::Launch& launch, const Modelled& m) {
  const device_model::Work& w = m.facts.work;
  return {{"kernel", kernel},
          {"schedule", launch.schedule},
          {"terms", terms_json(m.times)},
          {"predicted_ms", m.times.total},
          {"bound_by", m.times.bound},
          {"workgroups", m.facts.groups},
          {"resident_workgroups", m.facts.resident},
          {"instructions_from", m.is_sass ? "sass" : "ptx"},
          {"warp_instructions", w.instructions * m.facts.instruction_ratio},
          {"l2_bytes", w.sectors * 32 + w.bulk_bytes},
          {"bytes", m.facts.bytes},
          {"data_decide", w.guessed}};
}

void add_row(Table& table, size_t index, const std::string& kernel, const Modelled& m) {
  const Times& t = m.times;
  std::vector<std::string> row{std::to_string(index), kernel};
  for (const double v : {t.issue, t.matrix, t.special, t.shared, t.l2, t.dram, t.chain, t.waves})
    row.push_back(v < 1e-6 ? "-" : format_number(v));
  row.push_back(format_number(t.total));
  row.emplace_back(t.bound);
  table.add(std::move(row));
}

}  // namespace

std::string device_model_names() {
  std::vector<std::string> names;
  for (const Device& d : device_model::devices()) names.emplace_back(d.name);
  return join(names, ", ");
}

Result<Json> model_times(const Output& out, const package::CompiledPlan& compiled,
                         const Device& device, const std::string& nvrtc) {
  Reader reader(compiled, device, nvrtc);
  Table table({"#", "kernel", "issue", "matrix", "special", "shared", "L2", "DRAM", "chain",
               "waves", "model, ms", "bound by"});
  Json rows = Json::array();
  double total = 0;
  size_t index = 0, unknown = 0;
  bool sass = true;
  for (const plan::Step& step : compiled.plan.steps) {
    const auto* launch = std::get_if<plan::Launch>(&step.what);
    if (launch == nullptr) continue;
    const std::string& kernel = compiled.plan.kernels[launch->kernel].name;
    RP_ASSIGN(const auto modelled, model_launch(compiled.plan, *launch, reader, device));
    ++index;
    if (!modelled) {
      ++unknown;
      rows.push_back({{"kernel", kernel}, {"predicted_ms", Json()}});
      continue;
    }
    sass = sass && modelled->is_sass;
    total += modelled->times.total;
    add_row(table, index, kernel, *modelled);
    rows.push_back(row_json(kernel, *launch, *modelled));
  }
  out.text("\nA model of " + std::string(device.title) +
           ", not a measurement; times in milliseconds. None of its numbers is fitted to "
           "measured kernels.\n");
  out.table(table);
  out.text("all launches: " + format_number(total) + " ms by the model\n");
  if (unknown > 0)
    out.text(std::to_string(unknown) +
             " launches are left out, as their sizes are dynamic: give them with --shape\n");
  if (!sass && index > unknown)
    out.text("Instructions are counted in PTX, as no cubin was disassembled.\n");
  return Json{{"device", device.name},
              {"title", device.title},
              {"predicted_ms", total},
              {"dynamic_launches", unknown},
              {"kernels", std::move(rows)}};
}

}  // namespace reprise::app
