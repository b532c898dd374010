#include "codegen/probe_memory.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "codegen/kernel/interpreter_memory.h"

namespace reprise {

ProbeMemory::ProbeMemory(const plan::ProbeInputs& inputs, std::vector<Parameter> parameters,
                         uint32_t invocations)
    : parameters_(std::move(parameters)), invocations_(invocations) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const size_t pages =
        parameters_[i].memory == i ? (parameters_[i].bytes + kPage - 1) / kPage : 0;
    buffers_.push_back(
        {plan::ProbeFill(inputs, i, parameters_[i].dtype, parameters_[i].only_written), {}, 0, {}});
    buffers_[i].pages.resize(pages);
  }
}

uint64_t ProbeMemory::elements(size_t buffer) const {
  const Parameter& p = parameters_[buffer];
  return p.bytes / static_cast<uint64_t>(kernel::byte_size(p.storage));
}

std::byte* ProbeMemory::at(size_t buffer, uint64_t offset, size_t size) {
  const size_t memory = parameters_[buffer].memory;
  Buffer& b = buffers_[memory];
  b.extent = std::max(b.extent, offset + size);
  auto& page = b.pages[offset / kPage];
  if (!page) {
    page = std::make_unique<std::byte[]>(kPage);
    b.fill.write(offset / kPage * kPage, {page.get(), kPage});
  }
  return page.get() + offset % kPage;
}

bool ProbeMemory::load(size_t buffer, uint64_t index, uint32_t /*invocation*/, uint64_t& bits) {
  const kernel::Ty storage = parameters_[buffer].storage;
  const auto size = static_cast<size_t>(kernel::byte_size(storage));
  bits = kernel::load_element(at(buffer, index * size, size), storage);
  return true;
}

void ProbeMemory::note_written(size_t buffer, uint64_t offset, size_t size, uint32_t invocation) {
  const Parameter& p = parameters_[buffer];
  const size_t element = size_of(parameters_[p.memory].dtype);
  std::vector<Written>& written = buffers_[p.memory].written;
  const uint32_t workgroup = (invocation - 1) / invocations_;
  const uint64_t last = std::max<uint64_t>((offset + size) / element, offset / element + 1);
  for (uint64_t i = offset / element; i < last; ++i)
    written.push_back({workgroup, static_cast<uint32_t>(i)});
}

bool ProbeMemory::store(size_t buffer, uint64_t index, uint32_t invocation, uint64_t bits) {
  const kernel::Ty storage = parameters_[buffer].storage;
  const auto size = static_cast<size_t>(kernel::byte_size(storage));
  kernel::store_element(at(buffer, index * size, size), storage, bits);
  note_written(buffer, index * size, size, invocation);
  return true;
}

bool ProbeMemory::store_bits(size_t buffer, uint64_t index, uint32_t invocation, uint64_t value,
                             uint64_t mask) {
  const kernel::Ty storage = parameters_[buffer].storage;
  const auto size = static_cast<size_t>(kernel::byte_size(storage));
  std::byte* to = at(buffer, index * size, size);
  kernel::store_element(to, storage, (kernel::load_element(to, storage) & ~mask) | (value & mask));
  for (size_t b = 0; b < size; ++b) {  // of the word, those that the mask names
    if ((mask >> (8 * b) & 0xffU) != 0) note_written(buffer, index * size + b, 1, invocation);
  }
  return true;
}

std::vector<ProbeMemory::Written> ProbeMemory::written(size_t buffer) const {
  std::vector<Written> list = buffers_[parameters_[buffer].memory].written;
  std::sort(list.begin(), list.end(), [](const Written& a, const Written& b) {
    return std::tie(a.workgroup, a.element) < std::tie(b.workgroup, b.element);
  });
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

uint64_t ProbeMemory::element(size_t buffer, uint32_t index) {
  const size_t memory = parameters_[buffer].memory;
  const size_t size = size_of(parameters_[memory].dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, at(buffer, uint64_t{index} * size, size), size);
  return bits;
}

}  // namespace reprise
