#include "tests/cuda_shim/kernel_text.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/plan/block_layout.h"

namespace reprise::test {
namespace {

using plan::BlockLayout;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The word that ends before `end`.
std::string word_before(std::string_view text, size_t end) {
  while (end > 0 && !is_word(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  return std::string(text.substr(begin, end - begin));
}

/// Calls visit(line) for each line of `text`.
template <typename F>
void for_each_line(std::string_view text, const F& visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void read_block(std::string_view text, KernelText& kernel) {
  const std::string head = "struct " + kernel.name + "_block {";
  const size_t at = text.find(head);
  if (at == std::string_view::npos) return;
  const size_t begin = at + head.size(), end = text.find("};", begin);
  size_t scalars = 0;
  bool first = true;
  for_each_line(text.substr(begin, end - begin), [&](std::string_view line) {
    const size_t semicolon = line.find(';');
    if (semicolon == std::string_view::npos) return;
    const std::string name = word_before(line, semicolon);
    if (line.find('*') != std::string_view::npos) {
      if (!first) {  // the first is the error word's
        kernel.buffers.push_back({name, BlockLayout::buffer_offset(kernel.buffers.size()),
                                  line.find("const ") == std::string_view::npos, true});
      }
      first = false;
    } else if (name != "zero") {
      ++scalars;
    }
  });
  kernel.block_bytes = (BlockLayout::scalar_offset(kernel.buffers.size(), scalars) + 7) / 8 * 8;
}

uint32_t element_bytes(const std::string& type) {
  // Without a destructor: modules may still be compiled while the process ends.
  static constexpr std::pair<std::string_view, uint32_t> kSizes[] = {
      {"bool", 1}, {"char", 1},     {"rp_bool", 1}, {"short", 2},  {"rp_f16", 2}, {"rp_bf16", 2},
      {"int", 4},  {"unsigned", 4}, {"float", 4},   {"double", 8}, {"long", 8}};
  const auto* const it = std::find_if(std::begin(kSizes), std::end(kSizes),
                                      [&](const auto& known) { return known.first == type; });
  return it == std::end(kSizes) ? 16 : it->second;
}

/// Sum of the kernel's `__shared__ TYPE NAME[COUNT];`.
uint32_t shared_bytes(std::string_view body) {
  uint32_t bytes = 0;
  for_each_line(body, [&](std::string_view line) {
    if (line.find("__shared__") == std::string_view::npos) return;
    const size_t open = line.find('['), close = line.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos) return;
    const std::string name = word_before(line, open);
    const std::string type = word_before(line, line.rfind(name, open));
    const auto count = static_cast<uint32_t>(std::stoul(word_before(line, close)));
    bytes += (element_bytes(type) * count + 15) / 16 * 16;
  });
  return bytes;
}

/// Of the kernel's `RP_DYNAMIC_SHARED(NAME, COUNT)`.
uint32_t dynamic_bytes(std::string_view body) {
  const size_t at = body.find("RP_DYNAMIC_SHARED(");
  if (at == std::string_view::npos) return 0;
  return static_cast<uint32_t>(std::stoul(word_before(body, body.find(')', at))));
}

/// Whether a statement that defines a value loads from the buffer.
bool loads(std::string_view body, const std::string& buffer) {
  bool found = false;
  for_each_line(body, [&](std::string_view line) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos || line.substr(begin, 6) != "const ") return;
    found = found || line.find(buffer + "[") != std::string_view::npos ||
            line.find("(" + buffer + " + ") != std::string_view::npos;
  });
  return found;
}

bool waits(std::string_view body) {
  for (const char* what :
       {"__syncthreads", "rp_shuffle", "rp_reduce", "rp_matrix", "__shfl", "__ballot"}) {
    if (body.find(what) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<KernelText> kernels_of(const std::string& text) {
  constexpr std::string_view kGlobal = "__global__ void", kBounds = "__launch_bounds__(";
  std::vector<KernelText> kernels;
  const std::string_view all = text;
  for (size_t at = all.find(kGlobal); at != std::string_view::npos;) {
    const size_t next = all.find(kGlobal, at + 1);
    const size_t parameter = all.find("(const __grid_constant__", at);
    if (parameter == std::string_view::npos) break;
    const std::string_view body = all.substr(parameter, next - parameter);
    KernelText k;
    k.name = word_before(all, parameter);
    const size_t bounds = all.find(kBounds, at);
    if (bounds < parameter) {
      k.max_threads =
          static_cast<uint32_t>(std::stoul(std::string(all.substr(bounds + kBounds.size(), 10))));
    }
    read_block(all, k);
    for (BufferMember& b : k.buffers) b.read = !b.written || loads(body, b.name);
    k.shared_bytes = shared_bytes(body);
    k.dynamic_bytes = dynamic_bytes(body);
    k.waits = waits(body);
    kernels.push_back(std::move(k));
    at = next;
  }
  return kernels;
}

std::string launcher(const KernelText& kernel) {
  const std::string block = kernel.name + "_block";
  const std::string ended = "  shim->unaware += shim->awaited == 0;\n";
  const std::string call =
      "  " + kernel.name + "(shim->thread, *(const " + block + "*)block);\n" + ended;
  const std::string loops =
      "  const ShimIndex n = shim->group_size;\n"
      "  for (unsigned z = 0; z < n.z; ++z)\n"
      "    for (unsigned y = 0; y < n.y; ++y)\n"
      "      for (unsigned x = 0; x < n.x; ++x) {\n"
      "        const ShimIndex thread = {x, y, z};\n"
      "        shim->awaited = 0;\n        " +
      kernel.name + "(thread, *(const " + block + "*)block);\n" + ended + "      }\n";
  return "static_assert(sizeof(" + block + ") == " + std::to_string(kernel.block_bytes) +
         ", \"the parameter block\");\n"
         "extern \"C\" __attribute__((visibility(\"default\"))) void " +
         kernel.name +
         "_on_cpu(const void* block, Shim* shim) {\n"
         "  Shim* const before = reprise_shim;\n  reprise_shim = shim;\n" +
         (kernel.waits ? call : loops) + "  reprise_shim = before;\n}\n";
}

}  // namespace reprise::test
