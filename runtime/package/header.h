// The header of a .rpk file, little endian. Internal to runtime/package.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace reprise::package {

static_assert(std::endian::native == std::endian::little, "files are little endian");

/// As in PNG: a byte with its high bit set, line ends and an end-of-file character, so that
/// transfers in text mode are detected.
inline constexpr std::array<uint8_t, 8> kMagic{0x89, 'R', 'P', 'K', '\r', '\n', 0x1a, '\n'};
inline constexpr uint32_t kVersion = 7;
inline constexpr uint32_t kOldestVersion = 5;
/// The first version in which a weight may consist of others.
inline constexpr uint32_t kPartsVersion = 6;
/// The alignment of weights in the file.
inline constexpr uint64_t kWeightAlignment = 64;
/// The alignment of weights of at least kLargeWeight bytes: a page.
inline constexpr uint64_t kSegmentAlignment = 4096;
inline constexpr uint64_t kLargeWeight = 65536;
/// FlatBuffers offsets are 32-bit and signed.
inline constexpr uint64_t kMaxMetadata = (uint64_t{1} << 31) - 65536;

struct Header {
  std::array<uint8_t, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t header_bytes = 64;
  uint64_t file_bytes = 0;
  uint64_t metadata_offset = 64;
  uint64_t metadata_bytes = 0;
  uint64_t metadata_hash = 0;
  uint64_t weights_offset =
      0;                     // multiple of kSegmentAlignment; offsets of weights are relative to it
  uint64_t header_hash = 0;  // of all header bytes before this member
};
static_assert(sizeof(Header) == 64);

}  // namespace reprise::package
