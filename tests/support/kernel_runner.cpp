#include "tests/support/kernel_runner.h"

#include <algorithm>
#include <cstring>

#include "codegen/graph/whole.h"
#include "codegen/interpreter/interpreter.h"
#include "runtime/plan/bind.h"
#include "tests/support/packed.h"

namespace reprise::test {

using graph::ValueId;

namespace {

// What memory holds before anything is written to it.
constexpr std::byte kPoison{0x7f};

/// An empty tensor has memory, too, of which nothing may show in results (runtime/plan/bind.h).
size_t room_for(size_t bytes) {
  return bytes == 0 ? plan::readable_bytes(0) : bytes;
}

HostTensor pack(const HostTensor& w, const plan::Packing& p) {
  const std::vector<std::byte> bytes = packed_by_definition(p, w);
  HostTensor out(DType::U8, {static_cast<int64_t>(bytes.size())});
  std::ranges::copy(bytes, out.mutable_bytes().begin());
  return out;
}

}  // namespace

Status interpret(const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                 std::vector<std::span<std::byte>> buffers, std::vector<uint32_t> scalars) {
  auto outcome = kernel::interpret(k, {grid, std::move(buffers), std::move(scalars)});
  if (outcome.ok() && outcome->error != kernel::ErrorCode::None)
    return internal_error("error word " + std::to_string(static_cast<int>(outcome->error)));
  return outcome.status();
}

Execute cuda_on_cpu(const CudaOnCpu& module) {
  return [&module](const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                   std::vector<std::span<std::byte>> buffers, std::vector<uint32_t> scalars) {
    const kernel::BlockLayout layout;
    std::vector<uint64_t> block(kernel::BlockLayout::size(buffers.size(), scalars.size()) / 8 + 1);
    auto* bytes = reinterpret_cast<std::byte*>(block.data());
    uint32_t error = 0;
    const uint32_t* error_address = &error;
    std::memcpy(bytes, &error_address, 8);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::byte* p = buffers[i].data();
      std::memcpy(bytes + layout.buffer_offset(i), &p, 8);
    }
    for (size_t i = 0; i < scalars.size(); ++i) {
      std::memcpy(bytes + layout.scalar_offset(buffers.size(), i), &scalars[i], 4);
    }
    RP_TRY(module.run(k.name, grid, bytes));
    return error == 0 ? Status() : internal_error("error word " + std::to_string(error));
  };
}

Status RememberedRuns::run(const kernel::Kernel& k, std::array<uint32_t, 3> grid,
                           std::vector<std::span<std::byte>> buffers,
                           std::vector<uint32_t> scalars) {
  const auto append = [](std::string& text, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    text += std::to_string(bytes.size()) + ':';
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::string key = kernel::print(k);
  append(key, grid);
  append(key, scalars);
  for (const std::span<std::byte> b : buffers) append(key, b);
  const auto known = results_.find(key);
  if (known == results_.end()) {
    RP_TRY(execute_(k, grid, buffers, std::move(scalars)));
    std::string& result = results_[std::move(key)];
    for (const std::span<std::byte> b : buffers)
      result.append(reinterpret_cast<const char*>(b.data()), b.size());
    return {};
  }
  size_t at = 0;
  for (const std::span<std::byte> b : buffers) {
    std::memcpy(b.data(), known->second.data() + at, b.size());
    at += b.size();
  }
  return {};
}

Status legalize_for(lower::Lowered& l, const lower::Target& target) {
  kernel::LegalizeFor features;
  features.int64 = target.predicate.needs_int64;
  features.storage8 = target.predicate.needs_storage8;
  features.storage16 = target.predicate.needs_storage16;
  features.float16 = target.predicate.needs_float16;
  features.exact_halves = target.predicate.needs_exact_halves;
  features.word_loads = target.loads_64_bits;
  features.long_vectors = target.predicate.api == Api::Cuda;
  features.joins_accesses = !target.cpu_type();
  for (lower::LoweredLaunch& launch : l.launches) RP_TRY(kernel::legalize(launch.kernel, features));
  return {};
}

std::string print(const lower::Lowered& l) {
  std::string text;
  for (const lower::LoweredLaunch& launch : l.launches) text += kernel::print(launch.kernel);
  return text;
}

std::vector<int64_t> dims_of(const Shape& shape, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> dims;
  for (const Expr& e : shape) dims.push_back(*e.eval(symbols));
  return dims;
}

KernelRunner::KernelRunner(const graph::Graph& g, const std::vector<int64_t>& symbols,
                           const std::vector<HostTensor>& inputs)
    : g_(g), symbols_(symbols) {
  for (size_t i = 0; i < inputs.size(); ++i) store(g.inputs[i], inputs[i]);
}

Status KernelRunner::run(const lower::Lowered& l, const Execute& execute) {
  std::vector<Memory> scratch;
  for (const lower::ScratchBuffer& s : l.scratch)
    scratch.emplace_back(bytes_of(s.shape, s.dtype), kPoison);
  for (const lower::LoweredLaunch& launch : l.launches) RP_TRY(run(launch, scratch, execute));
  return {};
}

Status KernelRunner::run(const lower::LoweredLaunch& l, std::vector<Memory>& scratch,
                         const Execute& execute) {
  std::vector<HostTensor> packed;
  packed.reserve(l.packed.size());
  std::vector<std::span<std::byte>> buffers;
  for (size_t i = 0; i < l.buffers.size(); ++i) {
    const auto p = std::find_if(l.packed.begin(), l.packed.end(),
                                [&](const auto& x) { return static_cast<size_t>(x.buffer) == i; });
    if (p != l.packed.end()) {
      packed.push_back(pack(graph::whole(g_.value(l.buffers[i].value)), p->packing));
      buffers.push_back(packed.back().mutable_bytes());
    } else if (l.buffers[i].scratch) {
      buffers.emplace_back(scratch[*l.buffers[i].scratch]);
    } else {
      buffers.emplace_back(memory(l.buffers[i].value));
    }
  }
  std::array<uint32_t, 3> grid{};
  for (size_t d = 0; d < 3; ++d) {
    RP_ASSIGN(const int64_t v, l.grid[d].eval(symbols_));
    grid[d] = static_cast<uint32_t>(v);
  }
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return {};  // sizes may divide by the 0
  // As in plan::write_sizes: where there is nothing to write, a size may divide by the dim that is
  // 0.
  const bool nothing =
      std::all_of(l.buffers.begin(), l.buffers.end(), [&](const lower::LoweredBuffer& b) {
        if (!b.writes) return true;
        return b.scratch ? scratch[*b.scratch].empty()
                         : bytes_of(b.value, g_.value(b.value).dtype) == 0;
      });
  std::vector<uint32_t> scalars;
  for (const Expr& e : l.scalars) {
    auto v = e.eval(symbols_);
    if (!v.ok() && nothing) v = 0;
    RP_TRY(v.status());
    scalars.push_back(static_cast<uint32_t>(*v));
  }
  return execute(l.kernel, grid, std::move(buffers), std::move(scalars));
}

size_t KernelRunner::bytes_of(const Shape& shape, DType as) const {
  size_t bytes = size_of(as);
  for (int64_t d : dims_of(shape, symbols_)) bytes *= static_cast<size_t>(d);
  return (bytes + 3) / 4 * 4;
}

void KernelRunner::store(ValueId v, const HostTensor& t) {
  auto& m = memory_[v];
  m.assign(room_for(bytes_of(v, t.dtype())), t.bytes().empty() ? kPoison : std::byte{0});
  std::copy(t.bytes().begin(), t.bytes().end(), m.begin());
}

std::vector<std::byte>& KernelRunner::memory(ValueId v) {
  auto it = memory_.find(v);
  if (it != memory_.end()) return it->second;
  if (g_.value(v).constant) {
    store(v, graph::whole(g_.value(v)));
  } else {
    memory_[v].assign(room_for(bytes_of(v, graph::storage_of(g_.value(v)))), kPoison);
  }
  return memory_[v];
}

}  // namespace reprise::test
