// The buffers of a probe for the interpreter: pages that are filled when they are first accessed,
// so that large buffers cost only what a few workgroups use of them, and copied when they are
// first written, so that all launches share what they only read.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "codegen/interpreter/interpreter.h"
#include "runtime/plan/probe.h"

namespace reprise {

/// The contents of buffers before a launch. Each table and page is made once. Thread-safe.
class ProbeFills {
 public:
  static constexpr uint64_t kPage = 4096;  // bytes
  /// `inputs` is a row of plan::kProbeInputs; the other arguments are those of plan::ProbeFill.
  const plan::ProbeFill& of(size_t inputs, size_t parameter, DType dtype, bool only_written);
  /// A page of a buffer with the contents of `fill`, which of() has returned.
  const std::byte* page(const plan::ProbeFill& fill, uint64_t number);
  /// A period of the contents as words, and the first words of the next one.
  std::span<const uint32_t> words(const plan::ProbeFill& fill);

 private:
  std::mutex mutex_;
  std::map<std::tuple<size_t, size_t, DType, bool>, plan::ProbeFill> made_;
  std::map<const plan::ProbeFill*, std::vector<std::unique_ptr<std::byte[]>>> pages_;
  std::map<const plan::ProbeFill*, std::vector<uint32_t>> words_;
};

class ProbeMemory final : public kernel::Memory {
 public:
  struct Parameter {
    kernel::Ty storage = kernel::Ty::F32;
    DType dtype = DType::F32;
    uint64_t bytes = 0;  // a multiple of 4
    size_t memory = 0;   // the first parameter with the same memory
    bool only_written = false;
  };
  /// `inputs` is a row of plan::kProbeInputs, `invocations` the number of them in a workgroup.
  /// Each of `variants` executions sees only its own stores. If there are several, written() must
  /// not be called.
  ProbeMemory(ProbeFills& fills, size_t inputs, std::vector<Parameter> parameters,
              uint32_t invocations, size_t variants = 1);

  uint64_t elements(size_t buffer) const override;
  std::optional<kernel::Race> load(const kernel::MemoryRow& row) override;
  std::optional<kernel::Race> store(const kernel::MemoryRow& row) override;

  /// The end of the bytes that were accessed.
  uint64_t extent(size_t buffer) const { return buffers_[parameters_[buffer].memory].extent; }
  /// An element, in units of the parameter's dtype, and what stored to it: the workgroup by its
  /// position in the list of workgroups, the invocation counted over all of these, and the store,
  /// whose instruction is kSeveral if there are several.
  struct Written {
    static constexpr int32_t kSeveral = -1;
    uint32_t workgroup = 0, element = 0, invocation = 0;
    kernel::StoreOf store;
  };
  /// All stores, sorted by workgroup and element, each pair once.
  std::vector<Written> written(size_t buffer) const;
  /// The bits of an element, which has the parameter's dtype, after the execution of a variant.
  uint64_t element(size_t buffer, uint32_t index, size_t variant = 0);

 private:
  static constexpr uint64_t kPage = ProbeFills::kPage;
  struct Buffer {
    const plan::ProbeFill* fill = nullptr;
    std::span<const uint32_t> words;      // ProbeFills::words(); empty: not needed yet
    std::vector<const std::byte*> pages;  // before the launch; null: not accessed yet
    /// By variant, the pages that it has written. Empty: none has written any.
    std::vector<std::vector<std::unique_ptr<std::byte[]>>> own;
    uint64_t extent = 0;
    std::vector<Written> written;  // in the order of stores
  };
  const std::byte* before(Buffer& b, uint64_t offset) {
    const std::byte*& page = b.pages[offset / kPage];
    if (page == nullptr) page = fills_.page(*b.fill, offset / kPage);
    return page + offset % kPage;
  }
  const std::byte* at(Buffer& b, uint64_t offset, size_t variant) {
    if (!b.own.empty()) {
      if (const auto& page = b.own[variant][offset / kPage]) return page.get() + offset % kPage;
    }
    return before(b, offset);
  }
  /// Loads words of a buffer that nothing has been stored to.
  void load_words(const kernel::MemoryRow& row, Buffer& b);
  std::byte* to_write(Buffer& b, uint64_t offset, size_t variant);
  void note_written(const kernel::MemoryRow& row, uint64_t offset, size_t size, uint32_t n);

  ProbeFills& fills_;
  std::vector<Parameter> parameters_;
  uint32_t invocations_;
  size_t variants_;
  std::vector<Buffer> buffers_;
};

}  // namespace reprise
