#include "codegen/probes/probe_memory.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "codegen/interpreter/memory.h"

namespace reprise {

const plan::ProbeFill& ProbeFills::of(size_t inputs, size_t parameter, DType dtype,
                                      bool only_written) {
  const std::lock_guard lock(mutex_);
  return made_
      .try_emplace({inputs, parameter, dtype, only_written}, plan::kProbeInputs[inputs], parameter,
                   dtype, only_written)
      .first->second;
}

const std::byte* ProbeFills::page(const plan::ProbeFill& fill, uint64_t number) {
  const std::lock_guard lock(mutex_);
  auto& pages = pages_[&fill];
  if (pages.size() <= number) pages.resize(number + 1);
  if (!pages[number]) {
    pages[number] = std::make_unique_for_overwrite<std::byte[]>(kPage);
    fill.write(number * kPage, {pages[number].get(), kPage});
  }
  return pages[number].get();
}

std::span<const uint32_t> ProbeFills::words(const plan::ProbeFill& fill) {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t>& words = words_[&fill];
  if (words.empty()) {
    words.resize(fill.period() / sizeof(uint32_t) + kernel::PeriodicWords::kMore);
    fill.write(0, std::as_writable_bytes(std::span(words)));
  }
  return words;
}

ProbeMemory::ProbeMemory(ProbeFills& fills, size_t inputs, std::vector<Parameter> parameters,
                         uint32_t invocations, size_t variants)
    : fills_(fills),
      parameters_(std::move(parameters)),
      invocations_(invocations),
      variants_(variants) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const size_t pages =
        parameters_[i].memory == i ? (parameters_[i].bytes + kPage - 1) / kPage : 0;
    const Parameter& p = parameters_[i];
    Buffer& b = buffers_.emplace_back();
    b.fill = &fills.of(inputs, i, p.dtype, p.only_written);
    b.pages.resize(pages);
  }
}

uint64_t ProbeMemory::elements(size_t buffer) const {
  const Parameter& p = parameters_[buffer];
  return p.bytes / static_cast<uint64_t>(kernel::byte_size(p.storage));
}

std::byte* ProbeMemory::to_write(Buffer& b, uint64_t offset, size_t variant) {
  if (b.own.empty()) {
    b.own.resize(variants_);
    for (auto& pages : b.own) pages.resize(b.pages.size());
  }
  std::unique_ptr<std::byte[]>& page = b.own[variant][offset / kPage];
  if (!page) {
    page = std::make_unique_for_overwrite<std::byte[]>(kPage);
    std::memcpy(page.get(), before(b, offset / kPage * kPage), kPage);
  }
  return page.get() + offset % kPage;
}

void ProbeMemory::load_words(const kernel::MemoryRow& row, Buffer& b) {
  if (b.words.empty()) b.words = fills_.words(*b.fill);
  const kernel::PeriodicWords words(b.words);
  if (row.active.whole) {
    words.load({row.index, row.active.list.size()}, row.lanes, row.stride, row.value.u32);
  } else {
    for (const uint32_t n : row.active.list)
      words.load({row.index + n, 1}, row.lanes, row.stride, row.value.u32 + n);
  }
}

std::optional<kernel::Race> ProbeMemory::load(const kernel::MemoryRow& row) {
  const kernel::Ty storage = parameters_[row.buffer].storage;
  const auto size = static_cast<size_t>(kernel::byte_size(storage));
  Buffer& b = buffers_[parameters_[row.buffer].memory];
  const bool word =
      storage == kernel::Ty::F32 || storage == kernel::Ty::U32 || storage == kernel::Ty::I32;
  b.extent = std::max(b.extent, (row.largest + uint64_t{row.lanes}) * size);
  if (row.value.is_null()) return std::nullopt;
  if (word && b.own.empty()) {
    load_words(row, b);
    return std::nullopt;
  }
  kernel::each(row.active, [&](uint32_t n) {
    // A vector is aligned, so it lies within one page.
    const std::byte* from = at(b, row.index[n] * uint64_t{size}, row.variants[n]);
    for (size_t l = 0; l < row.lanes; ++l)
      row.value.set(l * row.stride + n, kernel::load_element(from + l * size, storage));
  });
  return std::nullopt;
}

/// `n` is the invocation's place in the row.
void ProbeMemory::note_written(const kernel::MemoryRow& row, uint64_t offset, size_t size,
                               uint32_t n) {
  if (variants_ != 1) return;
  const Parameter& p = parameters_[row.buffer];
  const uint32_t invocation = row.number(n) - 1;
  const size_t element = size_of(parameters_[p.memory].dtype);
  std::vector<Written>& written = buffers_[p.memory].written;
  const kernel::StoreOf store{row.instruction, row.iterations != nullptr ? row.iterations[n] : 0};
  const uint64_t last = std::max<uint64_t>((offset + size) / element, offset / element + 1);
  for (uint64_t i = offset / element; i < last; ++i)
    written.push_back({invocation / invocations_, static_cast<uint32_t>(i), invocation, store});
}

std::optional<kernel::Race> ProbeMemory::store(const kernel::MemoryRow& row) {
  const kernel::Ty storage = parameters_[row.buffer].storage;
  const auto size = static_cast<size_t>(kernel::byte_size(storage));
  Buffer& b = buffers_[parameters_[row.buffer].memory];
  kernel::each(row.active, [&](uint32_t n) {
    for (size_t l = 0; l < row.lanes; ++l) {
      const uint64_t offset = (row.index[n] + uint64_t{l}) * size;
      b.extent = std::max(b.extent, offset + size);
      std::byte* to = to_write(b, offset, row.variants[n]);
      const uint64_t bits = row.value.get(l * row.stride + n);
      if (row.mask == nullptr) {
        kernel::store_element(to, storage, bits);
        note_written(row, offset, size, n);
        continue;
      }
      const uint64_t mask = row.mask[n];
      kernel::store_element(to, storage,
                            (kernel::load_element(to, storage) & ~mask) | (bits & mask));
      for (size_t byte = 0; byte < size; ++byte) {  // the bytes of the word that the mask names
        if ((mask >> (8 * byte) & 0xffU) != 0) note_written(row, offset + byte, 1, n);
      }
    }
  });
  return std::nullopt;
}

std::vector<ProbeMemory::Written> ProbeMemory::written(size_t buffer) const {
  std::vector<Written> list = buffers_[parameters_[buffer].memory].written;
  std::sort(list.begin(), list.end(), [](const Written& a, const Written& b) {
    return std::tie(a.workgroup, a.element) < std::tie(b.workgroup, b.element);
  });
  size_t kept = 0;
  for (const Written& w : list) {
    Written* const last = kept == 0 ? nullptr : &list[kept - 1];
    if (last == nullptr || last->workgroup != w.workgroup || last->element != w.element) {
      list[kept++] = w;
    } else if (last->store != w.store) {
      last->store.instruction = Written::kSeveral;
    }
  }
  list.resize(kept);
  return list;
}

uint64_t ProbeMemory::element(size_t buffer, uint32_t index, size_t variant) {
  const size_t memory = parameters_[buffer].memory;
  const size_t size = size_of(parameters_[memory].dtype);
  uint64_t bits = 0;
  Buffer& b = buffers_[memory];
  b.extent = std::max(b.extent, (uint64_t{index} + 1) * size);
  std::memcpy(&bits, at(b, uint64_t{index} * size, variant), size);
  return bits;
}

}  // namespace reprise
