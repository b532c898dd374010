#include "apps/common/values.h"

#include <algorithm>
#include <filesystem>

#include "apps/common/inputs.h"
#include "apps/common/npy.h"
#include "codegen/onnx/importer.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

bool is_map(DType t) {
  return is_container(t) && item_type_of(t) == DType::Invalid;
}

/// The file or folder of an item.
std::string item_path(const std::string& folder, const std::string& name) {
  return utf8_text(utf8_path(folder) / name);
}

Result<HostTensor> read_map(const std::string& folder, DType type) {
  RP_ASSIGN(HostTensor keys, read_npy(item_path(folder, "keys.npy")));
  RP_ASSIGN(HostTensor values, read_npy(item_path(folder, "values.npy")));
  return HostTensor::container(type, {std::move(keys), std::move(values)});
}

Result<HostTensor> read_folder(const std::string& folder, DType type) {
  if (is_map(type)) return read_map(folder, type);
  const DType held = item_type_of(type);
  std::vector<HostTensor> items;
  for (;;) {
    const std::string path = item_path(folder, std::to_string(items.size()));
    const std::string file = is_container(held) ? path : path + ".npy";
    if (!fs::exists(utf8_path(file))) return HostTensor::container(type, std::move(items));
    RP_ASSIGN(HostTensor item, is_container(held) ? read_folder(file, held) : read_npy(file));
    items.push_back(std::move(item));
  }
}

}  // namespace

Result<HostTensor> read_value(const std::string& path, DType type) {
  if (!is_container(type)) return read_tensor(path);
  if (fs::is_directory(utf8_path(path))) return read_folder(path, type);
  if (utf8_path(path).extension() != ".pb") {
    return Status(Code::Usage, "input '" + path +
                                   "' is neither a folder nor a .pb, for a value of " +
                                   std::string(name_of(type)));
  }
  RP_ASSIGN(onnx::NamedTensor named, onnx::read_value_file(path, type));
  return std::move(named.tensor);
}

Result<HostTensor> read_input(const plan::Interface& io, const std::string& name,
                              const std::string& path) {
  const auto slot = std::ranges::find(io.inputs, name, &plan::Slot::name);
  return read_value(path, slot == io.inputs.end() ? DType::Invalid : slot->dtype);
}

Status write_value(const HostTensor& value, const std::string& path) {
  if (!is_container(value.dtype())) return write_npy(value, path + ".npy");
  std::error_code error;
  fs::create_directories(utf8_path(path), error);
  if (error) return {Code::Io, "cannot create '" + path + "': " + error.message()};
  const auto& items = value.items();
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string name = !is_map(value.dtype()) ? std::to_string(i)
                             : i == 0               ? "keys"
                                                    : "values";
    RP_TRY(write_value(items[i], item_path(path, name)));
  }
  return {};
}

}  // namespace reprise::app
