#include "apps/common/inputs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

#include "apps/common/npy.h"
#include "apps/common/waiting.h"
#include "codegen/onnx/importer.h"
#include "runtime/base/low_bit.h"
#include "runtime/base/random.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kUnbound = std::numeric_limits<int64_t>::min();
constexpr int64_t kMadeUpLimit = int64_t{1} << 32;  // bytes of one random input

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { return splitmix64(state_); }
  /// In [-1, 1), a multiple of 2^-23.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f; }

 private:
  uint64_t state_;
};

/// Containers are empty.
HostTensor random_tensor(DType dtype, const Dims& dims, Random& random) {
  if (is_container(dtype)) {
    std::vector<HostTensor> items;
    const bool strings = container_of(dtype) == Container::StringMap;
    if (item_type_of(dtype) == DType::Invalid) {
      items = {HostTensor(strings ? DType::String : DType::I64, {0}),
               HostTensor(element_of(dtype), {0})};
    }
    return HostTensor::container(dtype, std::move(items));
  }
  HostTensor t(dtype, dims);
  for (int64_t i = 0; i < t.count(); ++i) {
    const uint64_t bit = random.next() >> 63;
    if (is_low_bit(dtype) && !is_low_bit_int(dtype)) {
      t.mutable_data<uint8_t>()[i] = low_bit_from_float(dtype, random.uniform());
      continue;
    }
    switch (carrier_of(dtype)) {
      case DType::F32:
        t.mutable_data<float>()[i] = random.uniform();
        break;
      case DType::F64:
        t.mutable_data<double>()[i] = random.uniform();
        break;
      case DType::F16:
        t.mutable_data<uint16_t>()[i] = float_to_f16(random.uniform());
        break;
      case DType::BF16:
        t.mutable_data<uint16_t>()[i] = float_to_bf16(random.uniform());
        break;
      case DType::I8:
      case DType::U8:
      case DType::Bool:
        t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(bit);
        break;
      case DType::I16:
      case DType::U16:
        t.mutable_data<uint16_t>()[i] = static_cast<uint16_t>(bit);
        break;
      case DType::I32:
      case DType::U32:
        t.mutable_data<uint32_t>()[i] = static_cast<uint32_t>(bit);
        break;
      case DType::I64:
      case DType::U64:
        t.mutable_data<uint64_t>()[i] = bit;
        break;
      case DType::String:
        t.mutable_strings().resize(static_cast<size_t>(t.count()));
        break;
      default:
        break;
    }
  }
  return t;
}

std::string input_list(const plan::Interface& io) {
  std::string out;
  for (const plan::Slot& slot : io.inputs) {
    out += (out.empty() ? "" : ", ") + slot.name + " " + std::string(name_of(slot.dtype)) +
           shape_str(slot.shape, io.symbols);
  }
  return out;
}

Status check_name(const plan::Interface& io, const std::string& name) {
  for (const plan::Slot& slot : io.inputs) {
    if (slot.name == name) return {};
  }
  return invalid_input("the model has no input '" + name + "'; it has: " + input_list(io) +
                       " (inputs to which the file gives a value are compiled as constants, unless "
                       "--optional-input names them)");
}

/// Assigns the symbols whose values follow from the dims of one input. The session reports
/// contradictions.
void bind_symbols(const plan::Slot& slot, const Dims& dims, std::vector<int64_t>& symbols) {
  if (dims.size() != slot.shape.size()) return;
  for (size_t d = 0; d < dims.size(); ++d) {
    const std::optional<SymbolId> id = slot.shape[d].as_symbol();
    if (id && symbols[static_cast<size_t>(*id)] == kUnbound) {
      symbols[static_cast<size_t>(*id)] = dims[d];
    }
  }
}

/// The dims of a random input. Unknown symbols become 1, or the smallest allowed value.
Result<Dims> choose_dims(const plan::Interface& io, const plan::Slot& slot,
                         std::vector<int64_t>& symbols, std::vector<std::string>& notes) {
  Dims dims;
  for (const Expr& e : slot.shape) {
    const std::vector<SymbolId> used = e.symbols();
    for (const SymbolId id : used) {
      int64_t& value = symbols[static_cast<size_t>(id)];
      if (value != kUnbound) continue;
      const Symbol& symbol = io.symbols[static_cast<size_t>(id)];
      const int64_t divisor = std::max<int64_t>(symbol.divisor, 1);
      const int64_t least = std::max<int64_t>(symbol.min, 1);
      value = (least + divisor - 1) / divisor * divisor;
      notes.push_back("dimension '" + symbol.name + "' of input '" + slot.name + "' is set to " +
                      std::to_string(value) + "; choose another with --shape " + slot.name +
                      "=...");
    }
    RP_ASSIGN(const int64_t value, e.eval(symbols));
    dims.push_back(value);
  }
  return dims;
}

Status check_given_shapes(const plan::Interface& io, const InputSources& sources) {
  for (const auto& [name, tensor] : sources.given) RP_TRY(check_name(io, name));
  for (const auto& [name, dims] : sources.shapes) {
    RP_TRY(check_name(io, name));
    RP_TRY(checked_element_count(dims, DType::F32).status().with_context("--shape " + name));
  }
  return {};
}

Status check_made_up(const plan::Slot& slot, const Dims& dims) {
  const Result<int64_t> count = checked_element_count(dims, slot.dtype);
  if (!count.ok()) return count.status().with_context("input '" + slot.name + "'");
  if (*count <= kMadeUpLimit / static_cast<int64_t>(std::max<size_t>(size_of(slot.dtype), 1))) {
    return {};
  }
  return invalid_input("input '" + slot.name + "' would be " + describe(slot.dtype, dims) +
                       ": random inputs may not exceed 4 GB; give smaller dims with --shape");
}

/// The only value that runs may give.
HostTensor expected_tensor(const plan::Slot& slot) {
  HostTensor t(slot.dtype, static_dims(slot.shape));
  for (size_t i = 0; i < slot.expected.size(); ++i) {
    const int64_t v = slot.expected[i];
    if (slot.dtype == DType::I64) t.mutable_data<int64_t>()[i] = v;
    if (slot.dtype == DType::I32) t.mutable_data<int32_t>()[i] = static_cast<int32_t>(v);
    if (slot.dtype == DType::Bool) t.mutable_data<uint8_t>()[i] = v != 0 ? 1 : 0;
  }
  return t;
}

fs::path numbered_file(const std::string& dir, const std::string& stem, size_t i) {
  return utf8_path(dir) / (stem + std::to_string(i) + ".pb");
}

/// One more than the largest N of the files "stemN.pb"; 0 if there are none.
Result<size_t> count_numbered(const std::string& dir, const std::string& stem) {
  size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator it(utf8_path(dir), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = utf8_text(it->path().filename());
    if (!name.starts_with(stem) || !name.ends_with(".pb")) continue;
    const char* const last = name.data() + name.size() - 3;
    size_t i = 0;
    const auto [rest, failed] = std::from_chars(name.data() + stem.size(), last, i);
    if (failed == std::errc() && rest == last) count = std::max(count, i + 1);
  }
  if (error) return Status(Code::Io, "cannot list '" + dir + "': " + error.message());
  return count;
}

Status gap_in(const std::string& dir, const fs::path& missing, const std::string& last) {
  return invalid_input("'" + dir + "' lacks " + utf8_text(missing.filename()) + ", but has " +
                       last);
}

/// "stem0.pb", "stem1.pb" and so on. A gap is an error.
Result<std::vector<fs::path>> numbered_files(const std::string& dir, const std::string& stem) {
  RP_ASSIGN(const size_t count, count_numbered(dir, stem));
  std::vector<fs::path> files;
  while (files.size() < count) {
    fs::path p = numbered_file(dir, stem, files.size());
    if (!fs::exists(p)) return gap_in(dir, p, utf8_text(numbered_file({}, stem, count - 1)));
    files.push_back(std::move(p));
  }
  return files;
}

/// The type of the value in file number `i`, of which more may exist than slots.
DType type_at(const std::vector<plan::Slot>& slots, size_t i) {
  return i < slots.size() ? slots[i].dtype : DType::Invalid;
}

/// The input that file number `i` is for.
Result<const plan::Slot*> slot_of(const plan::Interface& io, const std::string& name, size_t i,
                                  const fs::path& file, std::vector<std::string>& notes) {
  for (const plan::Slot& slot : io.inputs) {
    if (slot.name == name) return &slot;
  }
  if (i >= io.inputs.size()) {
    return invalid_input("'" + utf8_text(file) + "' is for no input: the model has " +
                         std::to_string(io.inputs.size()) + ", and none named '" + name +
                         "'; remove the file. The inputs: " + input_list(io));
  }
  if (!name.empty()) {
    notes.push_back("'" + utf8_text(file) + "' holds '" + name + "', which is no input; input '" +
                    io.inputs[i].name + "' gets it by its position");
  }
  return &io.inputs[i];
}

}  // namespace

Result<HostTensor> read_tensor(const std::string& path) {
  const std::string ext = utf8_text(utf8_path(path).extension());
  if (ext == ".npy") return read_npy(path);
  if (ext != ".pb") {
    return Status(Code::Usage, "input file '" + path + "' is neither .npy nor .pb (TensorProto)");
  }
  RP_ASSIGN(onnx::NamedTensor named, onnx::read_tensor_file(path));
  return std::move(named.tensor);
}

Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    return Status(Code::Usage, "expected NAME=VALUE, found '" + text + "'");
  }
  return std::pair{text.substr(0, at), text.substr(at + 1)};
}

std::vector<Binding> InputSet::bindings() const {
  std::vector<Binding> out(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    out[i].name = names[i];
    out[i].host = &tensors[i];
  }
  return out;
}

Status InputSet::explain(Status error) const {
  constexpr size_t kMost = 4;
  if (error.code() != Code::InvalidInput || random.empty()) return error;
  const size_t shown = std::min(random.size(), kMost);
  std::string list;
  for (size_t i = 0; i < shown; ++i) list += (i ? ", '" : "'") + random[i] + "'";
  if (shown < random.size()) list += " and " + std::to_string(random.size() - shown) + " more";
  const bool one = random.size() == 1;
  return {error.code(), error.message() + (one ? "; input " : "; inputs ") + list +
                            (one ? " was not given, so its values are random: give it with --input "
                                 : " were not given, so their values are random: give them with "
                                   "--input ") +
                            (one ? random[0] : "NAME") + "=FILE"};
}

Result<std::vector<HostTensor>> run_session(Session& session, const InputSet& inputs,
                                            RunStats* stats) {
  const Waiting waiting(runs_session(session));
  auto outputs = session.run(inputs.bindings(), {}, stats);
  if (!outputs.ok()) return inputs.explain(outputs.status());
  return outputs;
}

Result<std::vector<HostTensor>> run_from_start(Session& session, const InputSet& inputs) {
  const Waiting waiting(runs_session(session));
  auto results = session.run_from_start(inputs.bindings());
  if (!results.ok()) return inputs.explain(results.status());
  return results;
}

Result<InputSet> make_inputs(const plan::Interface& io, const InputSources& sources,
                             std::vector<std::string>& notes) {
  RP_TRY(check_given_shapes(io, sources));
  std::vector<int64_t> symbols(io.symbols.size(), kUnbound);
  for (size_t s = 0; s < symbols.size(); ++s)  // states that grow begin without rows
    if (io.sources[s].kind == SymbolSource::Kind::StateLength) symbols[s] = 0;
  for (const plan::Slot& slot : io.inputs) {
    const auto given = sources.given.find(slot.name);
    if (given != sources.given.end()) bind_symbols(slot, given->second.dims(), symbols);
    const auto shape = sources.shapes.find(slot.name);
    if (shape != sources.shapes.end()) bind_symbols(slot, shape->second, symbols);
  }
  Random random(sources.seed);
  InputSet out;
  for (const plan::Slot& slot : io.inputs) {
    out.names.push_back(slot.name);
    const auto given = sources.given.find(slot.name);
    if (given != sources.given.end()) {
      out.tensors.push_back(given->second);
      continue;
    }
    const auto shape = sources.shapes.find(slot.name);
    if (slot.initial != plan::Slot::kNone && shape == sources.shapes.end()) {
      out.names.pop_back();  // the model gives it a value
      continue;
    }
    if (!slot.expected.empty()) {
      out.tensors.push_back(expected_tensor(slot));
      continue;
    }
    Dims dims;
    if (shape != sources.shapes.end()) {
      dims = shape->second;
    } else {
      RP_ASSIGN(dims, choose_dims(io, slot, symbols, notes));
    }
    RP_TRY(check_made_up(slot, dims));
    out.random.push_back(slot.name);
    out.tensors.push_back(random_tensor(slot.dtype, dims, random));
  }
  return out;
}

Result<std::map<std::string, HostTensor>> read_input_folder(const std::string& dir,
                                                            const plan::Interface& io,
                                                            std::vector<std::string>& notes) {
  std::map<std::string, HostTensor> out;
  RP_ASSIGN(const std::vector<fs::path> files, numbered_files(dir, "input_"));
  for (size_t i = 0; i < files.size(); ++i) {
    RP_ASSIGN(onnx::NamedTensor named,
              onnx::read_value_file(utf8_text(files[i]), type_at(io.inputs, i)));
    RP_ASSIGN(const plan::Slot* slot, slot_of(io, named.name, i, files[i], notes));
    if (!out.emplace(slot->name, std::move(named.tensor)).second) {
      return invalid_input("'" + utf8_text(files[i]) + "' is for input '" + slot->name +
                           "', as another file of the folder is");
    }
  }
  return out;
}

Status missing_input(const std::string& file, const std::string& name) {
  return invalid_input("'" + file +
                       "' is missing: the folder has no file (a TensorProto) for input '" + name +
                       "'; add it, or give the input with --input " + name + "=FILE");
}

Status check_complete(const std::string& dir, const plan::Interface& io,
                      const std::map<std::string, HostTensor>& given) {
  for (size_t i = 0; i < io.inputs.size(); ++i) {
    const std::string& name = io.inputs[i].name;
    if (!given.contains(name) && io.inputs[i].initial == plan::Slot::kNone)
      return missing_input(utf8_text(numbered_file(dir, "input_", i)), name);
  }
  return {};
}

bool has_input_files(const std::string& dir) {
  const Result<size_t> count = count_numbered(dir, "input_");
  return !count.ok() || *count > 0;
}

Result<std::vector<HostTensor>> read_output_folder(const std::string& dir,
                                                   const std::vector<plan::Slot>& outputs) {
  std::vector<HostTensor> out;
  RP_ASSIGN(const std::vector<fs::path> files, numbered_files(dir, "output_"));
  for (size_t i = 0; i < files.size(); ++i) {
    RP_ASSIGN(onnx::NamedTensor named,
              onnx::read_value_file(utf8_text(files[i]), type_at(outputs, i)));
    out.push_back(std::move(named.tensor));
  }
  return out;
}

}  // namespace reprise::app
