#include "apps/reprise/machine_code.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "runtime/platform/child/child.h"
#include "runtime/platform/file.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

struct Instruction {
  uint64_t address = 0;
  std::string_view opcode;           // with its modifiers
  std::optional<uint64_t> jumps_to;  // of a branch
};

struct Kinds {
  std::string_view source;
  std::array<std::string_view, 6> matrix, async_copies, local, barriers;  // beginnings of opcodes
};

constexpr Kinds kSass{
    .source = "sass",
    .matrix = {"HMMA", "HGMMA", "IMMA", "QGMMA", "IGMMA", "QMMA"},
    .async_copies = {"LDGSTS", "UTMALDG", "UBLKCP"},
    .local = {"LDL", "STL"},
    .barriers = {"BAR"},
};
constexpr Kinds kPtx{
    .source = "ptx",
    .matrix = {"mma.", "wgmma.mma_async", "tcgen05.mma", "wmma.mma"},
    .async_copies = {"cp.async.ca", "cp.async.cg", "cp.async.bulk.tensor", "cp.async.bulk.shared"},
    .local = {"ld.local", "st.local"},
    .barriers = {"bar.", "barrier."},
};

template <size_t n>
bool begins_with_any(std::string_view opcode, const std::array<std::string_view, n>& beginnings) {
  return std::ranges::any_of(
      beginnings, [&](std::string_view b) { return !b.empty() && opcode.starts_with(b); });
}

std::optional<MachineCode> count(const std::vector<Instruction>& code, const Kinds& kinds) {
  if (code.empty()) return {};
  MachineCode out;
  out.source = kinds.source;
  out.instructions = static_cast<uint32_t>(code.size());
  std::vector<uint32_t> matrices{0};  // before each instruction
  for (const Instruction& i : code) {
    const bool matrix = begins_with_any(i.opcode, kinds.matrix);
    matrices.push_back(matrices.back() + (matrix ? 1 : 0));
    out.async_copies += begins_with_any(i.opcode, kinds.async_copies) ? 1 : 0;
    out.local += begins_with_any(i.opcode, kinds.local) ? 1 : 0;
    out.barriers += begins_with_any(i.opcode, kinds.barriers) ? 1 : 0;
  }
  out.matrix = matrices.back();
  for (size_t end = 0; end < code.size(); ++end) {
    const auto target = code[end].jumps_to;
    if (!target || *target >= code[end].address) continue;
    const auto first = std::ranges::lower_bound(code, *target, {}, &Instruction::address);
    const auto begin = static_cast<size_t>(first - code.begin());
    const uint32_t matrix = matrices[end + 1] - matrices[begin];
    const auto length = static_cast<uint32_t>(end + 1 - begin);
    const bool better =
        matrix > out.loop_matrix || (matrix == out.loop_matrix && length < out.loop_instructions);
    if (matrix == 0 || !better) continue;
    out.loop_matrix = matrix;
    out.loop_instructions = length;
  }
  return out;
}

std::string_view trimmed(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

/// The text after the predicate of an instruction ("@!P0 ", "@%p1 ").
std::string_view without_predicate(std::string_view s) {
  if (!s.starts_with('@')) return s;
  const size_t end = s.find(' ');
  return end == std::string_view::npos ? std::string_view() : trimmed(s.substr(end));
}

std::string_view first_word(std::string_view s) {
  return s.substr(0, s.find_first_of(" \t;"));
}

std::optional<uint64_t> hexadecimal(std::string_view s) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, 16);
  if (error != std::errc()) return {};
  return value;
}

/// Calls f with each line, until it returns false.
template <typename F>
void for_each_line(std::string_view text, const F& f) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (!f(trimmed(text.substr(0, end)))) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::optional<Occupancy> occupancy_of(const plan::KernelCode& kernel, uint32_t architecture) {
  struct Limits {
    uint32_t architecture, warps, workgroups, shared, reserved;  // shared memory in bytes
  };
  constexpr uint32_t kRegisters = 65536, kRegisterUnit = 256, kWarp = 32, kSharedUnit = 128;
  constexpr std::array kLimits = {
      Limits{75, 32, 16, 65536, 0},      Limits{80, 64, 32, 167936, 1024},
      Limits{86, 48, 16, 102400, 1024},  Limits{87, 48, 16, 167936, 1024},
      Limits{89, 48, 24, 102400, 1024},  Limits{90, 64, 32, 233472, 1024},
      Limits{100, 64, 32, 233472, 1024}, Limits{120, 48, 24, 102400, 1024},
  };
  const auto* limits = std::ranges::find(kLimits, architecture, &Limits::architecture);
  if (limits == kLimits.end() || kernel.usage.registers == 0) return {};
  const auto round_up = [](uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; };
  const uint32_t threads = kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2];
  const uint32_t warps = std::max(1U, (threads + kWarp - 1) / kWarp);
  const uint32_t registers = round_up(kernel.usage.registers * kWarp, kRegisterUnit) * warps;
  const uint32_t shared = round_up(kernel.usage.shared_bytes + limits->reserved, kSharedUnit);
  uint32_t resident = std::min({limits->workgroups, limits->warps / warps, kRegisters / registers});
  if (shared > 0) resident = std::min(resident, limits->shared / shared);
  return Occupancy{resident, static_cast<double>(resident * warps) / limits->warps};
}

/// Lines are "/*0010*/  @P0 BRA 0x100 ;  /* encoding */".
std::optional<MachineCode> read_sass(std::string_view text) {
  std::vector<Instruction> code;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with("Function :")) return code.empty();
    if (!line.starts_with("/*")) return true;
    const size_t close = line.find("*/");
    const auto address = hexadecimal(line.substr(2));
    const size_t end = line.find(';');
    if (!address || close == std::string_view::npos || end == std::string_view::npos) return true;
    const std::string_view body =
        without_predicate(trimmed(line.substr(close + 2, end - close - 2)));
    Instruction i{*address, first_word(body), {}};
    if (i.opcode.starts_with("BRA")) {
      const size_t target = body.rfind("0x");
      if (target != std::string_view::npos) i.jumps_to = hexadecimal(body.substr(target + 2));
    }
    code.push_back(i);
    return true;
  });
  return count(code, kSass);
}

std::optional<MachineCode> read_ptx(std::string_view text) {
  std::vector<Instruction> code;
  std::map<std::string_view, uint64_t> labels;
  std::vector<std::pair<size_t, std::string_view>> branches;
  bool inside = false;
  for_each_line(text, [&](std::string_view line) {
    if (line == "{" && !inside) {
      inside = true;
    } else if (line == "}" && inside && !code.empty() && code.back().opcode.starts_with("ret")) {
      return false;
    } else if (inside && line.ends_with(':')) {
      labels.emplace(line.substr(0, line.size() - 1), code.size());
    } else if (inside && line.find(';') != std::string_view::npos && !line.starts_with('.') &&
               !line.starts_with("//")) {
      std::string_view body = without_predicate(line);
      if (body.starts_with('{')) body = trimmed(body.substr(1));
      const std::string_view opcode = first_word(body);
      if (opcode.starts_with("bra")) {
        const std::string_view operand = trimmed(body.substr(opcode.size()));
        branches.emplace_back(code.size(), first_word(operand));
      }
      code.push_back({code.size(), opcode, {}});
    }
    return true;
  });
  for (const auto& [at, label] : branches) {
    if (const auto target = labels.find(label); target != labels.end())
      code[at].jumps_to = target->second;
  }
  return count(code, kPtx);
}

MachineCodeReader::~MachineCodeReader() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(utf8_path(folder_), ignored);
}

std::optional<MachineCode> MachineCodeReader::read(const plan::KernelCode& kernel, bool ptx) {
  if (kernel.image.empty()) return {};
  if (!ptx) return disassembled(kernel);
  return read_ptx({reinterpret_cast<const char*>(kernel.image.data()), kernel.image.size() - 1});
}

std::optional<MachineCode> MachineCodeReader::disassembled(const plan::KernelCode& kernel) {
  if (lacks_disassembler_) return {};
  if (folder_.empty()) {
    Result<std::string> folder = platform::create_temporary_folder();
    lacks_disassembler_ = !folder.ok();
    if (!folder.ok()) return {};
    folder_ = *std::move(folder);
  }
  const std::filesystem::path folder = utf8_path(folder_);
  const std::filesystem::path cubin = folder / "kernel.cubin", listing = folder / "kernel.sass";
  std::ofstream(cubin, std::ios::binary)
      .write(reinterpret_cast<const char*>(kernel.image.data()),
             static_cast<std::streamsize>(kernel.image.size()));
  const auto status =
      platform::run_program({"cuobjdump", "-sass", utf8_text(cubin)}, utf8_text(listing));
  std::ifstream in(listing, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto code = status.ok() && *status == 0 ? read_sass(text) : std::nullopt;
  lacks_disassembler_ = !code.has_value();
  return code;
}

}  // namespace reprise::app
