// Files of sequences, optionals and maps (SequenceProto, OptionalProto, MapProto), as the ONNX
// suite stores inputs and outputs.
#include "codegen/onnx/file/tensor.h"
#include "codegen/onnx/importer.h"

namespace reprise::onnx {

namespace {

class ValueReader {
 public:
  ValueReader(std::shared_ptr<const void> owner, ExternalData external)
      : owner_(std::move(owner)), external_(std::move(external)) {}

  Result<HostTensor> sequence(const wire::Sequence& from, DType type) {
    std::vector<HostTensor> items;
    const DType held = item_type_of(type);
    for (const wire::Tensor& t : from.tensor_values()) {
      RP_ASSIGN(HostTensor item, tensor(t, held));
      items.push_back(std::move(item));
    }
    for (const wire::Map& m : from.map_values()) {
      RP_ASSIGN(HostTensor item, map(m, held));
      items.push_back(std::move(item));
    }
    if (from.sequence_values_size() > 0)
      return unsupported("it holds sequences of sequences, which are not supported");
    return HostTensor::container(type, std::move(items));
  }

  Result<HostTensor> optional(const wire::Optional& from, DType type) {
    const DType held = item_type_of(type);
    std::vector<HostTensor> items;
    if (from.has_sequence_value()) {
      if (container_of(held) != Container::Sequence) return differs("a sequence", held);
      RP_ASSIGN(HostTensor item, sequence(from.sequence_value(), held));
      items.push_back(std::move(item));
    } else if (from.has_tensor_value()) {
      RP_ASSIGN(HostTensor item, tensor(from.tensor_value(), held));
      items.push_back(std::move(item));
    }
    return HostTensor::container(type, std::move(items));
  }

  Result<HostTensor> map(const wire::Map& from, DType type) {
    const bool strings = container_of(type) == Container::StringMap;
    if (!strings && container_of(type) != Container::IntMap) return differs("a map", type);
    HostTensor keys(strings ? DType::String : DType::I64,
                    {strings ? from.string_keys_size() : from.keys_size()});
    if (strings) {
      keys.mutable_strings().assign(from.string_keys().begin(), from.string_keys().end());
    } else {
      std::copy(from.keys().begin(), from.keys().end(), keys.mutable_data<int64_t>());
    }
    const DType element = element_of(type);
    HostTensor values(element, keys.dims());
    if (from.values().tensor_values_size() != keys.count()) {
      return invalid_model("a map has " + std::to_string(keys.count()) + " keys, but " +
                           std::to_string(from.values().tensor_values_size()) + " values");
    }
    for (int64_t i = 0; i < keys.count(); ++i) {
      RP_ASSIGN(const HostTensor v,
                tensor(from.values().tensor_values(static_cast<int>(i)), element));
      if (v.count() != 1) return invalid_model("a value of a map is not one number or string");
      if (element == DType::String) {
        values.mutable_strings()[static_cast<size_t>(i)] = v.strings()[0];
      } else {
        const size_t size = size_of(element);
        std::memcpy(values.mutable_bytes().data() + static_cast<size_t>(i) * size, v.bytes().data(),
                    size);
      }
    }
    return HostTensor::container(type, {std::move(keys), std::move(values)});
  }

 private:
  static Status differs(const std::string& found, DType wanted) {
    return invalid_input("it holds " + found + ", where the model has " +
                         std::string(name_of(wanted)));
  }

  Result<HostTensor> tensor(const wire::Tensor& from, DType wanted) {
    RP_ASSIGN(HostTensor t, to_host(from, owner_, external_));
    if (t.dtype() == wanted) return t;
    return differs("a tensor of " + std::string(name_of(t.dtype())), wanted);
  }

  std::shared_ptr<const void> owner_;
  ExternalData external_;
};

/// A file, or bytes in memory if there is no path.
struct Source {
  const std::string* path = nullptr;
  std::span<const std::byte> bytes = {};

  template <typename Message>
  Result<std::shared_ptr<const Message>> read(const char* what) const {
    return path ? read_message<Message>(*path, what) : parse_message<Message>(bytes, "value", what);
  }
  ExternalData external() const { return path == nullptr ? ExternalData() : ExternalData(*path); }
};

Result<NamedTensor> read_value(const Source& source, DType type) {
  NamedTensor out;
  if (is_optional(type)) {
    RP_ASSIGN(const auto file, source.read<wire::Optional>("an optional (OptionalProto)"));
    out.name = file->name();
    RP_ASSIGN(out.tensor, ValueReader(file, source.external()).optional(*file, type));
  } else if (item_type_of(type) == DType::Invalid) {
    RP_ASSIGN(const auto file, source.read<wire::Map>("a map (MapProto)"));
    out.name = file->name();
    RP_ASSIGN(out.tensor, ValueReader(file, source.external()).map(*file, type));
  } else {
    RP_ASSIGN(const auto file, source.read<wire::Sequence>("a sequence (SequenceProto)"));
    out.name = file->name();
    RP_ASSIGN(out.tensor, ValueReader(file, source.external()).sequence(*file, type));
  }
  return out;
}

}  // namespace

Result<NamedTensor> read_value_bytes(std::span<const std::byte> bytes, DType type) {
  if (!is_container(type)) return read_tensor_bytes(bytes);
  return read_value({.bytes = bytes}, type);
}

Result<NamedTensor> read_value_file(const std::string& path, DType type) {
  if (!is_container(type)) return read_tensor_file(path);
  auto named = read_value({.path = &path}, type);
  if (!named.ok()) return named.status().with_context(path);
  return named;
}

}  // namespace reprise::onnx
