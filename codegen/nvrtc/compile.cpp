#include "codegen/nvrtc/compile.h"

#include <algorithm>
#include <charconv>

namespace reprise::nvrtc {
namespace {

/// Owns an NVRTC program.
class Compilation {
 public:
  explicit Compilation(const Functions& f) : f_(f) {}
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation() {
    if (program_ != nullptr) f_.destroy(&program_);
  }

  Status create(const std::string& text, const std::string& name) {
    return check(f_.create(&program_, text.c_str(), name.c_str(), 0, nullptr, nullptr),
                 "nvrtcCreateProgram");
  }
  Error compile(const std::vector<std::string>& options) {
    std::vector<const char*> list;
    list.reserve(options.size());
    for (const std::string& o : options) list.push_back(o.c_str());
    return f_.compile(program_, static_cast<int>(list.size()), list.data());
  }
  Status log(std::string& out) { return read(f_.log_size, f_.log, "nvrtcGetProgramLog", out); }
  Status image(bool ptx, std::string& out) {
    return ptx ? read(f_.ptx_size, f_.ptx, "nvrtcGetPTX", out)
               : read(f_.cubin_size, f_.cubin, "nvrtcGetCUBIN", out);
  }
  Status check(Error error, const char* what) const {
    if (error == 0) return {};
    return {Code::Device, std::string(what) + " failed: " + f_.error_string(error)};
  }

 private:
  Status read(Error (*size)(Program, size_t*), Error (*get)(Program, char*), const char* what,
              std::string& out) {
    size_t bytes = 0;
    RP_TRY(check(size(program_, &bytes), what));
    out.resize(bytes);
    return bytes == 0 ? Status() : check(get(program_, out.data()), what);
  }

  const Functions& f_;
  Program program_ = nullptr;
};

/// Finds the number right before `unit`. False if the line has none.
bool number_before(std::string_view line, std::string_view unit, uint32_t& out) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return false;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  uint32_t value = 0;
  if (std::from_chars(line.data() + begin, line.data() + end, value).ec != std::errc())
    return false;
  out = std::max(out, value);
  return true;
}

/// The beginning of a compiler's log, for a message.
std::string excerpt(std::string_view text) {
  constexpr size_t kMaxLength = 2000;
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.remove_suffix(1);
  std::string out(text.substr(0, kMaxLength));
  if (text.size() > kMaxLength) out += "...";
  return out;
}

}  // namespace

std::vector<std::string> options_for(const CudaArch& arch) {
  std::vector<std::string> options{"--gpu-architecture=" + arch.str(), "--std=c++17",
                                   "--fmad=false"};
  if (!arch.ptx) options.emplace_back("--ptxas-options=-v");
  return options;
}

plan::KernelCode::Usage parse_log(std::string_view log, std::vector<std::string>& warnings) {
  plan::KernelCode::Usage usage;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (line.find_first_not_of(" \r\0") == std::string_view::npos || line[0] == '\0') continue;
    if (number_before(line, " bytes stack frame", usage.stack_bytes)) {
      number_before(line, " bytes spill stores", usage.spill_bytes);
      number_before(line, " bytes spill loads", usage.spill_bytes);
    } else if (line.starts_with("ptxas info")) {
      number_before(line, " registers", usage.registers);
      number_before(line, " bytes smem", usage.shared_bytes);
    } else {
      warnings.emplace_back(line);
    }
  }
  return usage;
}

namespace {

/// The text with a second launch bound, of one workgroup per multiprocessor. Without it the
/// assembler may spill in order to fit several workgroups, although registers are left.
std::string with_all_registers(std::string text) {
  constexpr std::string_view kBounds = "__launch_bounds__(";
  const size_t bounds = text.rfind(kBounds);
  const size_t end = bounds == std::string::npos ? bounds : text.find(')', bounds);
  const bool has_one = end != std::string::npos && text.find(',', bounds) < end;
  if (end != std::string::npos && !has_one) text.insert(end, ", 1");
  return text;
}

Result<Image> compile_once(const Library& library, const std::string& text,
                           const std::string& kernel, const CudaArch& arch) {
  Compilation c(library.functions());
  RP_TRY(c.create(text, kernel + ".cu"));
  const Error error = c.compile(options_for(arch));
  std::string log;
  RP_TRY(c.log(log));
  if (error != 0) {
    return internal_error("NVRTC " + library.version() + " rejects the text, " +
                          library.functions().error_string(error) + ":\n" + excerpt(log));
  }
  Image image;
  std::vector<std::string> warnings;
  image.usage = parse_log(log, warnings);
  if (!warnings.empty()) image.warnings = excerpt(log);
  std::string bytes;
  RP_TRY(c.image(arch.ptx, bytes));
  image.bytes.resize(bytes.size());
  std::transform(bytes.begin(), bytes.end(), image.bytes.begin(),
                 [](char b) { return static_cast<std::byte>(b); });
  return image;
}

}  // namespace

Result<Image> compile_text(const Library& library, const std::string& text,
                           const std::string& kernel, const CudaArch& arch) {
  Result<Image> image = compile_once(library, text, kernel, arch);
  if (image.ok() && image->usage.spill_bytes > 0) {
    Result<Image> again = compile_once(library, with_all_registers(text), kernel, arch);
    if (again.ok() && again->usage.spill_bytes < image->usage.spill_bytes) image = std::move(again);
  }
  if (image.ok()) return image;
  return image.status().with_context("kernel '" + kernel + "' for " + arch.str());
}

}  // namespace reprise::nvrtc
