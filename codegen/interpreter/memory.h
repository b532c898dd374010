// The interpreter's memory: bytes with a shadow that records which invocations accessed them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Which invocations have read and written an element since the last synchronisation.
struct Touch {
  uint32_t writer = 0;   // invocation + 1; 0: none
  uint32_t reader = 0;   // the only reader + 1; kMany: several
  uint32_t epoch = 0;    // accesses of an older epoch do not count
  bool written = false;  // in any epoch
  static constexpr uint32_t kMany = 0xffffffffU;

  bool is_read_by_many(uint32_t now) const {
    return reader == kMany && writer == 0 && epoch == now;
  }
  /// These return false if this access and an earlier one by another invocation race.
  bool read(uint32_t invocation, uint32_t now) {
    renew(now);
    if (reader == 0) {
      reader = invocation;
    } else if (reader != invocation) {
      reader = kMany;
    }
    return writer == 0 || writer == invocation;
  }
  bool write(uint32_t invocation, uint32_t now) {
    renew(now);
    const bool alone =
        (writer == 0 || writer == invocation) && (reader == 0 || reader == invocation);
    writer = invocation;
    written = true;
    return alone;
  }
  /// An asynchronous copy, which is an invocation of its own, begins to write. Until it lands, the
  /// element has no value.
  bool begin(uint32_t copy, uint32_t now) {
    const bool alone = write(copy, now);
    written = false;
    return alone;
  }
  /// The copy lands, as a write of the invocation that waits for it.
  bool land(uint32_t copy, uint32_t invocation, uint32_t now) {
    renew(now);
    const bool alone = !written && reader == 0 && (writer == 0 || writer == copy);
    writer = invocation;
    written = true;
    return alone;
  }

 private:
  void renew(uint32_t now) {
    if (epoch == now) return;
    epoch = now;
    writer = 0;
    reader = 0;
  }
};

/// The buffers of a launch. Overlapping spans share one shadow.
class BufferMemory final : public Memory {
 public:
  BufferMemory(const Kernel& k, std::span<const std::span<std::byte>> buffers);
  uint64_t elements(size_t buffer) const override { return views_[buffer].elements; }
  std::optional<Race> load(const MemoryRow& row) override;
  std::optional<Race> store(const MemoryRow& row) override;

 private:
  struct Region {  // a maximal run of overlapping spans
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    size_t unit = 8;  // bytes that one Touch covers: the smallest element
    std::vector<Touch> touches;
  };
  struct View {
    std::byte* data = nullptr;
    uint64_t elements = 0;
    size_t size = 0;  // bytes of an element
    Ty storage = Ty::Void;
    size_t region = 0;
  };
  std::span<Touch> touches(const View& v, uint64_t index);

  std::vector<View> views_;
  std::vector<Region> regions_;
};

/// The matrices of subgroups, row by row. A matrix is empty until it is written.
class MatrixMemory {
 public:
  MatrixMemory(const Kernel& k, uint32_t subgroups)
      : k_(k), subgroups_(subgroups), values_(k.matrices.size() * subgroups) {}
  void clear();
  std::vector<double>& of(size_t matrix, uint32_t subgroup) {
    return values_[matrix * subgroups_ + subgroup];
  }
  /// False if one of the three matrices was not written.
  bool multiply(const MatrixOperands& p, uint32_t subgroup, const InterpretOptions& options);

 private:
  const Kernel& k_;
  uint32_t subgroups_;
  std::vector<std::vector<double>> values_;
};

/// Converts an element from its storage type in memory to its compute type, and back.
uint64_t load_element(const std::byte* at, Ty storage);
void store_element(std::byte* at, Ty storage, uint64_t bits);
/// An element of a sum as an array or an operand of this type has it: rounded to nearest even.
double rounded(double element, Ty type);

}  // namespace reprise::kernel
