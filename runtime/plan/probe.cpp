#include "runtime/plan/probe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/base/bytes.h"
#include "runtime/base/random.h"

namespace reprise::plan {
namespace {

constexpr uint64_t kPeriod = 4093;  // a prime, so that no stride of a kernel divides it

void put_element(DType dtype, const ProbeInputs& row, uint64_t random, std::byte* at) {
  const float real = row.from + row.span * static_cast<float>(random >> 40U) * 0x1p-24f;
  int64_t whole = is_signed_int(dtype) ? row.least : row.least_unsigned;
  whole = row.count == 0 ? static_cast<int64_t>(random)
                         : whole + static_cast<int64_t>(random % static_cast<uint64_t>(row.count));
  switch (carrier_of(dtype)) {
    case DType::F32:
      return store_bytes(at, real);
    case DType::F16:
      return store_bytes(at, float_to_f16(real));
    case DType::BF16:
      return store_bytes(at, float_to_bf16(real));
    case DType::F64:
      return store_bytes(at, static_cast<double>(real));
    case DType::I8:
    case DType::U8:
      return store_bytes(at, static_cast<uint8_t>(whole));
    case DType::I16:
    case DType::U16:
      return store_bytes(at, static_cast<uint16_t>(whole));
    case DType::I32:
    case DType::U32:
      return store_bytes(at, static_cast<uint32_t>(whole));
    case DType::I64:
    case DType::U64:
      return store_bytes(at, whole);
    case DType::Bool:
      return store_bytes(at, static_cast<uint8_t>(random >> 63U));
    default:  // String and Invalid
      return;
  }
}

Status verify_samples(const Probe::Samples& s, DType dtype, uint64_t bytes) {
  const uint64_t elements = bytes / size_of(dtype);
  const bool inside =
      std::all_of(s.at.begin(), s.at.end(), [&](uint32_t at) { return at < elements; });
  if (!inside) return invalid_model("it samples an element past the end of its buffer");
  const bool real = is_float(dtype);
  const size_t n = s.at.size();
  const bool counts = s.values.size() == (real ? n : 0) && s.exact.size() == (real ? 0 : n) &&
                      s.tolerance.size() == s.values.size();
  if (!counts || n == 0) return invalid_model("it has different numbers of samples and values");
  const bool sane = std::all_of(s.tolerance.begin(), s.tolerance.end(),
                                [](double t) { return t >= 0 && std::isfinite(t); });
  return sane ? Status() : invalid_model("a tolerance is not a positive number");
}

}  // namespace

double real_of(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::F16:
      return f16_to_float(static_cast<uint16_t>(bits));
    case DType::BF16:
      return bf16_to_float(static_cast<uint16_t>(bits));
    case DType::F64:
      return std::bit_cast<double>(bits);
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
  }
}

int64_t integer_of(DType dtype, uint64_t bits) {
  const auto unused = static_cast<unsigned>(64 - 8 * size_of(dtype));
  return is_signed_int(dtype) ? static_cast<int64_t>(bits << unused) >> unused
                              : static_cast<int64_t>(bits);
}

Status verify_probe(const Plan& p, uint32_t index, const Probe& probe) {
  if (!probe.skipped.empty()) {
    return probe.samples.empty() ? Status() : invalid_model("a probe that is skipped has samples");
  }
  const KernelCode& kernel = p.kernels[index];
  const std::string where = "probe of kernel '" + kernel.name + "'";
  const auto* launch =
      probe.step < p.steps.size() ? std::get_if<Launch>(&p.steps[probe.step].what) : nullptr;
  if (launch == nullptr || launch->kernel != index)
    return invalid_model(where + ": step " + std::to_string(probe.step) + " does not launch it");
  if (probe.scalars.size() != kernel.n_scalars || probe.bytes.size() != kernel.n_buffers ||
      probe.inputs >= kProbeInputs.size() || probe.samples.empty())
    return invalid_model(where + ": it does not fit the kernel's parameters");
  for (const uint32_t n : probe.grid) {
    if (n < 1 || n > 65535) return invalid_model(where + ": its grid is impossible");
  }
  uint64_t total = 0;
  for (size_t i = 0; i < probe.bytes.size(); ++i) {
    const uint64_t bytes = probe.bytes[i];
    if (bytes > kMaxProbeBytes || (total += bytes) > kMaxProbeBytes)
      return invalid_model(where + ": its buffers are too large");
    if (bytes != probe.bytes[first_binding(*launch, i)])
      return invalid_model(where + ": it gives one buffer two sizes");
  }
  for (const Probe::Samples& s : probe.samples) {
    if (s.buffer >= kernel.n_buffers || !launch->writes[s.buffer])
      return invalid_model(where + ": it samples a buffer that is not written");
    const Buffer& b = p.buffers[launch->buffers[s.buffer]];
    RP_TRY(verify_samples(s, b.dtype, probe.bytes[s.buffer]).with_context(where));
  }
  return {};
}

size_t first_binding(const Launch& launch, size_t i) {
  const auto first = std::find(launch.buffers.begin(), launch.buffers.end(), launch.buffers[i]);
  return static_cast<size_t>(first - launch.buffers.begin());
}

bool is_only_written(const Launch& launch, size_t i) {
  for (size_t p = 0; p < launch.buffers.size(); ++p) {
    if (launch.buffers[p] == launch.buffers[i] && !launch.writes[p]) return false;
  }
  return true;
}

ProbeFill::ProbeFill(const ProbeInputs& row, size_t parameter, DType dtype, bool only_written)
    : size_(size_of(dtype)), table_(kPeriod * size_) {
  uint64_t state = parameter;
  state = splitmix64(state);
  for (uint64_t i = 0; i < kPeriod; ++i)
    put_element(dtype, row, splitmix64(state), table_.data() + i * size_);
  if (!only_written) return;
  for (std::byte& b : table_) b = ~b;
}

size_t ProbeFill::period() const {
  return kPeriod * std::max(size_, sizeof(uint32_t));
}

void ProbeFill::write(uint64_t offset, std::span<std::byte> out) const {
  auto from = static_cast<size_t>(offset / size_ % kPeriod) * size_;
  for (size_t done = 0; done < out.size();) {
    const size_t n = std::min(table_.size() - from, out.size() - done);
    std::memcpy(out.data() + done, table_.data() + from, n);
    done += n;
    from = 0;
  }
}

}  // namespace reprise::plan
