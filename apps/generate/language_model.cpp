#include "apps/generate/language_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "apps/common/model.h"
#include "apps/common/status.h"
#include "codegen/families/decoder.h"
#include "codegen/families/model_graph.h"
#include "runtime/base/timing.h"
#include "runtime/platform/cache_folder.h"
#include "runtime/platform/file.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

using PackagePtr = std::shared_ptr<const package::Package>;

/// The integers of a text such as "1,2". Others are left out.
std::vector<int64_t> split_numbers(const std::string& text) {
  std::vector<int64_t> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t v = 0;
    const auto [after, error] = std::from_chars(at, end, v);
    if (error == std::errc()) out.push_back(v);
    at = std::find(after, end, ',');
    if (at < end) ++at;
  }
  return out;
}

void read_metadata(const package::Package& p, LanguageModel& out) {
  for (const auto& [key, value] : p.metadata) {
    if (key == families::kEndTokensKey) out.end_tokens = split_numbers(value);
    const std::vector<int64_t> numbers = split_numbers(value);
    if (numbers.size() != 1) continue;
    if (key == families::kContextKey) out.context = numbers[0];
    if (key == families::kVocabularyKey) out.vocabulary = numbers[0];
  }
}

/// Adds the contents of a file to the hash.
Status hash_file(const std::string& path, package::PieceHash& hash) {
  const auto opened = platform::InputFile::open(path);
  if (!opened.ok()) return opened.status().with_context("'" + path + "'");
  const platform::InputFile& file = *opened;
  std::vector<std::byte> piece(size_t{4} << 20);
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    RP_ASSIGN(const size_t read, file.read_some(at, piece));
    hash.add(std::span(piece).first(read));
  }
  return {};
}

std::string digits_of(const package::PieceHash& hash) {
  constexpr size_t kDigits = 16;
  std::string digits(kDigits, '0');
  const uint64_t value = hash.plain();
  for (size_t i = 0; i < kDigits; ++i) digits[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15U];
  return digits;
}

/// The hash of what the package of a model depends on: its files, the device and the options.
Result<std::string> content_key(const std::string& path, const OpenedDevice& device,
                                const LanguageModelOptions& options) {
  package::PieceHash hash;
  const auto add_text = [&](const std::string& text) {
    hash.add(std::as_bytes(std::span(text)));
    hash.add(std::as_bytes(std::span("\n", 1)));
  };
  std::vector<std::filesystem::path> files;
  std::error_code error;
  if (std::filesystem::is_directory(utf8_path(path), error)) {
    for (const auto& e : std::filesystem::directory_iterator(utf8_path(path), error)) {
      const auto extension = e.path().extension();
      if (extension == ".json" || extension == ".safetensors") files.push_back(e.path());
    }
    std::ranges::sort(files);
  } else {
    files.push_back(utf8_path(path));
  }
  for (const std::filesystem::path& file : files) {
    add_text(utf8_text(file.filename()));
    RP_TRY(hash_file(utf8_text(file), hash));
  }
  add_text(device.info.id + " " + device.info.name + " " +
           std::to_string(device.info.driver_version));
  add_text(options.identity);
  return digits_of(hash);
}

/// A package of the cache. Null if there is none that can be used.
PackagePtr cached_package(const std::filesystem::path& file, const OpenedDevice& device) {
  std::string wrong;
  if (open_cache_file(file, wrong) == nullptr) return nullptr;
  const auto read = package::read(utf8_text(file));
  if (!read.ok()) return nullptr;
  if (device.device && !why_unfit(**read, device.info.facts).empty()) return nullptr;
  std::error_code ignored;  // the cache drops what was not used for longest
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now(), ignored);
  return *read;
}

class DecoderCompiler {
 public:
  DecoderCompiler(const std::string& path, const OpenedDevice& device,
                  const LanguageModelOptions& options)
      : path_(path), device_(device), options_(options) {}

  Result<LanguageModel> load() {
    LanguageModel out;
    out.path = path_;
    if (!options_.cache_dir.empty()) {
      RP_ASSIGN(key_, content_key(path_, device_, options_));
    }
    RP_ASSIGN(out.package, package());
    out.compiled = compiled_;
    read_metadata(*out.package, out);
    return out;
  }

 private:
  Result<PackagePtr> package() {
    const std::filesystem::path file = utf8_path(options_.cache_dir) / (key_ + ".rpk");
    if (!key_.empty()) {
      PackagePtr kept = cached_package(file, device_);
      if (kept != nullptr) return kept;
    }
    RP_ASSIGN(const Model model, load_model(path_, options_.compile));
    compiled_ = true;
    const PackagePtr& package = model.package;
    if (key_.empty() || !platform::create_own_folder(options_.cache_dir)) return package;
    const Status written = package::write(*package, utf8_text(file));
    if (!written.ok()) {
      note("the compiled model is not kept: " + written.message());
      return package;
    }
    bound_cache_folder(utf8_path(options_.cache_dir), ".rpk", options_.cache_bytes, file);
    return package;
  }

  const std::string& path_;
  const OpenedDevice& device_;
  const LanguageModelOptions& options_;
  std::string key_;
  bool compiled_ = false;
};

/// An ONNX file that samples, if its logits allow it, or a package.
Result<Model> load_file(const std::string& path, const CompileOptions& options) {
  auto model = load_model(path, options);
  if (model.ok() || model.status().code() != Code::Usage) return model;
  note("tokens are chosen on the host: " + model.status().message());
  CompileOptions without = options;
  without.last.clear();
  without.sample.reset();
  return load_model(path, without);
}

}  // namespace

std::string program_identity() {
  // Another build may compile to something else.
  std::error_code error;
  const auto program = std::filesystem::canonical("/proc/self/exe", error);
  if (error) return {};
  const auto bytes = std::filesystem::file_size(program, error);
  const auto time = std::filesystem::last_write_time(program, error).time_since_epoch().count();
  return std::to_string(bytes) + " " + std::to_string(time);
}

Result<std::string> file_digest(const std::string& path) {
  package::PieceHash hash;
  RP_TRY(hash_file(path, hash));
  return digits_of(hash);
}

std::string weights_digest(const package::Package& package) {
  if (package.weight_hashes.empty()) return {};
  package::PieceHash hash;
  hash.add(std::as_bytes(std::span(package.weight_hashes)));
  return digits_of(hash);
}

Result<LanguageModel> load_language_model(const std::string& path, const OpenedDevice& device,
                                          const LanguageModelOptions& given) {
  const double start = now_ms();
  LanguageModelOptions options = given;
  options.compile = generating_options(given.compile);
  LanguageModel out;
  if (families::is_decoder(path)) {
    RP_ASSIGN(out, DecoderCompiler(path, device, options).load());
  } else {
    RP_ASSIGN(const Model model, load_file(path, options.compile));
    out.path = path;
    out.package = model.package;
    out.compiled = model.compiled;
    read_metadata(*model.package, out);
  }
  out.load_ms = now_ms() - start;
  return out;
}

}  // namespace reprise::app
