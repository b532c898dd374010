// What is the same on all systems.
#include "runtime/platform/file.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "runtime/platform/output_file.h"

namespace reprise::platform {

InputFile::InputFile(InputFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), begin_(other.begin_), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(file_, other.file_);
  begin_ = other.begin_;
  size_ = other.size_;
  return *this;
}

InputFile::~InputFile() {
  close();
}

Status InputFile::take(uint64_t offset, uint64_t length) {
  if (offset > size_ || length > size_ - offset) {
    return {Code::Io, "has " + std::to_string(size_) + " bytes, but " + std::to_string(length) +
                          " bytes from byte " + std::to_string(offset) + " on were asked for"};
  }
  begin_ = offset;
  size_ = length > 0 ? length : size_ - offset;
  return {};
}

Status InputFile::read(uint64_t offset, std::span<std::byte> out) const {
  RP_ASSIGN(const size_t size, read_some(offset, out));
  if (size == out.size()) return {};
  return {Code::Io, "has become shorter while it was open: it ends at byte " +
                        std::to_string(offset + size) + ", not at " + std::to_string(size_)};
}

bool OutputFile::pad_to(uint64_t offset) {
  static constexpr std::array<char, 4096> kZeros{};
  while (written_ < offset) {
    if (!write(kZeros.data(), std::min<uint64_t>(kZeros.size(), offset - written_))) return false;
  }
  return true;
}

std::string error_text(int error) {
  return std::generic_category().message(error);
}

}  // namespace reprise::platform
