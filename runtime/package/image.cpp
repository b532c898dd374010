#include "runtime/package/image.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace reprise::package {
namespace {

// The parts of ELF-64 that state the offsets and sizes of the file's contents.
struct FileHeader {
  std::array<uint8_t, 16> ident;
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, segments, sections;  // offsets of the tables
  uint32_t flags;
  uint16_t header_bytes, segment_bytes, segment_count, section_bytes, section_count, names;
};
static_assert(sizeof(FileHeader) == 64);

struct SegmentHeader {
  uint32_t type, flags;
  uint64_t offset, address, physical, file_bytes, memory_bytes, alignment;
};
static_assert(sizeof(SegmentHeader) == 56);

struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, address, offset, bytes;
  uint32_t link, info;
  uint64_t alignment, entry_bytes;
};
static_assert(sizeof(SectionHeader) == 64);

constexpr std::array<uint8_t, 6> kElf{0x7f, 'E', 'L', 'F', 2, 1};  // 64 bits, little endian
constexpr uint16_t kCudaMachine = 190;
constexpr uint32_t kNoBits = 8;  // a section without bytes in the file

Status malformed_image(const std::string& what) {
  return corrupt_package("its cubin is damaged: " + what);
}

bool inside(uint64_t offset, uint64_t size, std::span<const std::byte> bytes) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

template <typename T>
T header_at(std::span<const std::byte> bytes, uint64_t offset) {
  T out;
  std::memcpy(&out, bytes.data() + offset, sizeof out);
  return out;
}

}  // namespace

Status check_cubin(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(FileHeader)) return malformed_image("it has no header");
  const auto h = header_at<FileHeader>(bytes, 0);
  if (!std::equal(kElf.begin(), kElf.end(), h.ident.begin()) || h.machine != kCudaMachine)
    return malformed_image("it is not an ELF file for CUDA");
  const bool sizes = (h.segment_count == 0 || h.segment_bytes == sizeof(SegmentHeader)) &&
                     h.section_count > 0 && h.section_bytes == sizeof(SectionHeader);
  if (!sizes) return malformed_image("the sizes of its tables are not those of ELF");
  if (!inside(h.segments, uint64_t{h.segment_count} * h.segment_bytes, bytes) ||
      !inside(h.sections, uint64_t{h.section_count} * h.section_bytes, bytes))
    return malformed_image("a table is outside its bytes");
  for (uint64_t i = 0; i < h.segment_count; ++i) {
    const auto s = header_at<SegmentHeader>(bytes, h.segments + i * h.segment_bytes);
    if (!inside(s.offset, s.file_bytes, bytes))
      return malformed_image("segment " + std::to_string(i) + " is outside its bytes");
  }
  for (uint64_t i = 0; i < h.section_count; ++i) {
    const auto s = header_at<SectionHeader>(bytes, h.sections + i * h.section_bytes);
    if (s.type != kNoBits && !inside(s.offset, s.bytes, bytes))
      return malformed_image("section " + std::to_string(i) + " is outside its bytes");
  }
  return {};
}

Status check_ptx(std::span<const std::byte> bytes) {
  const auto zero = std::find(bytes.begin(), bytes.end(), std::byte{0});
  if (bytes.size() > 1 && zero == bytes.end() - 1) return {};
  return corrupt_package("its PTX is damaged: it must have exactly one zero byte, at its end");
}

}  // namespace reprise::package
