#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/cuda_standin/driver/module.h"

namespace reprise::standin {
namespace {

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
  return {error, std::move(problem), {}};
}

Image found(std::span<const std::byte> image) {
  return {cuda::CUDA_SUCCESS, "", image};
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
  return found({image, elf_bytes(image, head)});
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
  return found({image, ptx.size() + 1});
}

}  // namespace

Image read_image(const void* image, const Settings& device) {
  const auto* bytes = static_cast<const std::byte*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) == 0) return read_elf(bytes, device.arch);
  return read_ptx(bytes, device);
}

}  // namespace reprise::standin
