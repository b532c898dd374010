#include <elf.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/cuda_standin/driver/module.h"

namespace reprise::standin {
namespace {

constexpr std::string_view kMagic = "RPCUDATX";
constexpr size_t kSearched = 4096;

/// Copies memory that may not be there: what could be read.
std::string peek(const std::byte* at, size_t bytes) {
  std::string out(bytes, '\0');
  const iovec to{out.data(), bytes};
  const iovec from{const_cast<std::byte*>(at), bytes};
  const ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
  if (got < 0 && (errno == EPERM || errno == ENOSYS)) {  // a sandbox; the text is there as a rule
    std::memcpy(out.data(), at, bytes);
    return out;
  }
  out.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return out;
}

/// Peeks by pages, as a range that ends in an unmapped one is refused as a whole.
std::string peek_pages(const std::byte* at, size_t bytes) {
  constexpr size_t kPage = 4096;
  std::string out;
  while (bytes > 0) {
    const size_t n = std::min(bytes, kPage - reinterpret_cast<uintptr_t>(at) % kPage);
    const std::string part = peek(at, n);
    out += part;
    if (part.size() < n) break;
    at += n;
    bytes -= n;
  }
  return out;
}

size_t elf_bytes(const std::byte* image, const Elf64_Ehdr& head) {
  size_t end = sizeof head;
  end = std::max<size_t>(end, head.e_phoff + size_t{head.e_phnum} * head.e_phentsize);
  end = std::max<size_t>(end, head.e_shoff + size_t{head.e_shnum} * head.e_shentsize);
  for (size_t n = 0; n < head.e_shnum; ++n) {
    Elf64_Shdr section{};
    std::memcpy(&section, image + head.e_shoff + n * head.e_shentsize, sizeof section);
    if (section.sh_type != SHT_NOBITS) {
      end = std::max<size_t>(end, section.sh_offset + section.sh_size);
    }
  }
  return end;
}

/// The architecture that a cubin is for: where it stands depends on the version of the format.
int elf_arch(const Elf64_Ehdr& head) {
  constexpr unsigned char kWide = 8;  // from CUDA 13 on
  if (head.e_ident[EI_ABIVERSION] >= kWide) return static_cast<int>(head.e_flags >> 8U & 0xFFFFU);
  return static_cast<int>(head.e_flags & 0xFFU);
}

Image refuse(cuda::CUresult error, std::string problem) {
  return {error, std::move(problem), ""};
}

/// The text behind the first `end` bytes.
Image text_behind(const std::byte* image, size_t end) {
  const size_t first = (end + 7) / 8 * 8;
  const std::string window = peek_pages(image + first, kSearched + kMagic.size() + 8);
  for (size_t at = 0; at + kMagic.size() + 8 <= window.size(); at += 8) {
    if (std::string_view(window).substr(at, kMagic.size()) != kMagic) continue;
    uint64_t bytes = 0;
    std::memcpy(&bytes, window.data() + at + kMagic.size(), sizeof bytes);
    std::string text = peek_pages(image + first + at + kMagic.size() + 8, bytes);
    if (text.size() != bytes) break;
    return {cuda::CUDA_SUCCESS, "", std::move(text)};
  }
  return refuse(cuda::CUDA_ERROR_INVALID_IMAGE, "there is no CUDA text behind the image");
}

Image read_elf(const std::byte* image, int arch) {
  Elf64_Ehdr head{};
  std::memcpy(&head, image, sizeof head);
  constexpr int kCudaMachine = 190;
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != kCudaMachine) {
    return refuse(cuda::CUDA_ERROR_INVALID_IMAGE, "the ELF image is not a cubin");
  }
  const int made_for = elf_arch(head);
  if (made_for / 10 != arch / 10 || made_for % 10 > arch % 10) {
    return refuse(cuda::CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "the cubin is for sm_" + std::to_string(made_for) + ", the device is sm_" +
                      std::to_string(arch));
  }
  return text_behind(image, elf_bytes(image, head));
}

/// The number behind `key`; -1 where there is none.
int number_behind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  return at == std::string_view::npos ? -1 : std::atoi(text.data() + at + key.size());
}

Image read_ptx(const std::byte* image, const Settings& device) {
  const std::string_view ptx = reinterpret_cast<const char*>(image);
  const int version = number_behind(ptx, ".version "), made_for = number_behind(ptx, ".target sm_");
  if (version < 0) {
    return refuse(cuda::CUDA_ERROR_INVALID_IMAGE, "the image is neither ELF nor PTX");
  }
  if (made_for < 0) return refuse(cuda::CUDA_ERROR_INVALID_PTX, "the PTX names no target");
  const int known = device.driver / 1000 - 4;  // PTX 8 came with CUDA 12, PTX 9 with 13
  if (version > known) {
    return refuse(cuda::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                  "the PTX is of version " + std::to_string(version) + ", the driver knows " +
                      std::to_string(known));
  }
  if (made_for > device.arch) {
    return refuse(cuda::CUDA_ERROR_INVALID_PTX, "the PTX is for sm_" + std::to_string(made_for) +
                                                    " and later, the device is sm_" +
                                                    std::to_string(device.arch));
  }
  return text_behind(image, ptx.size() + 1);
}

}  // namespace

Image read_image(const void* image, const Settings& device) {
  const auto* bytes = static_cast<const std::byte*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) return read_elf(bytes, device.arch);
  return read_ptx(bytes, device);
}

}  // namespace reprise::standin
