#include "tests/support/onnx_writer.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/low_bit.h"

namespace reprise::test {

namespace {

// Field numbers are those of the public ONNX format.

std::string varint(uint64_t v) {
  std::string out;
  while (v >= 128) {
    out += static_cast<char>(v % 128 + 128);
    v /= 128;
  }
  return out + static_cast<char>(v);
}

std::string integer(uint32_t field, int64_t v) {
  return varint(field << 3) + varint(static_cast<uint64_t>(v));
}

std::string text(uint32_t field, const std::string& s) {
  return varint(field << 3 | 2) + varint(s.size()) + s;
}

std::string float32(uint32_t field, float v) {
  std::string out = varint(field << 3 | 5);
  out.append(reinterpret_cast<const char*>(&v), 4);
  return out;
}

std::string value_info(const std::string& name, DType dtype, const std::vector<Dim>& dims) {
  std::string shape;
  for (const Dim& d : dims) {
    const auto* number = std::get_if<int64_t>(&d);
    shape += text(1, number ? integer(1, *number) : text(2, std::get<std::string>(d)));
  }
  const std::string tensor_type = integer(1, onnx_type(dtype)) + text(2, shape);
  return text(1, name) + text(2, text(1, tensor_type));
}

std::string tensor_fields(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                          const std::string& bytes) {
  std::string out;
  for (const int64_t d : dims) out += integer(1, d);
  out += integer(2, onnx_type(dtype));
  if (!name.empty()) out += text(8, name);
  return out + text(9, bytes);
}

std::string raw_bytes(const HostTensor& t) {
  std::string out(packed_size(t.dtype(), static_cast<uint64_t>(t.count())), '\0');
  if (is_low_bit(t.dtype())) {
    pack_elements(t.dtype(), t.bytes(), std::as_writable_bytes(std::span(out)));
  } else if (!out.empty()) {
    std::memcpy(out.data(), t.bytes().data(), out.size());
  }
  return out;
}

/// One AttributeProto; its type number says which field holds the value.
std::string attribute(const std::string& name, const Attr& value) {
  std::string out = text(1, name);
  if (const auto* f = std::get_if<float>(&value)) return out + float32(2, *f) + integer(20, 1);
  if (const auto* i = std::get_if<int64_t>(&value)) return out + integer(3, *i) + integer(20, 2);
  if (const auto* s = std::get_if<std::string>(&value)) return out + text(4, *s) + integer(20, 3);
  if (const auto* t = std::get_if<HostTensor>(&value)) {
    return out + text(5, tensor_fields("", t->dtype(), t->dims(), raw_bytes(*t))) + integer(20, 4);
  }
  if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
    for (const float v : *floats) out += float32(7, v);
    return out + integer(20, 6);
  }
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    for (const int64_t v : *ints) out += integer(8, v);
    return out + integer(20, 7);
  }
  if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& v : *strings) out += text(9, v);
    return out + integer(20, 8);
  }
  return out;
}

}  // namespace

int32_t onnx_type(DType t) {
  return onnx_number_of(t);
}

OnnxWriter& OnnxWriter::input(const std::string& name, DType dtype, const std::vector<Dim>& dims) {
  inputs_ += text(11, value_info(name, dtype, dims));
  return *this;
}

OnnxWriter& OnnxWriter::output(const std::string& name, DType dtype, const std::vector<Dim>& dims) {
  outputs_ += text(12, value_info(name, dtype, dims));
  return *this;
}

OnnxWriter& OnnxWriter::initializer(const std::string& name, const HostTensor& tensor) {
  return raw_initializer(name, tensor.dtype(), tensor.dims(), raw_bytes(tensor));
}

OnnxWriter& OnnxWriter::raw_initializer(const std::string& name, DType dtype,
                                        const std::vector<int64_t>& dims,
                                        const std::string& bytes) {
  initializers_ += text(5, tensor_fields(name, dtype, dims, bytes));
  return *this;
}

OnnxWriter& OnnxWriter::node(const std::string& op, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs, const NodeOptions& options) {
  std::string out;
  for (const std::string& name : inputs) out += text(1, name);
  for (const std::string& name : outputs) out += text(2, name);
  if (!options.name.empty()) out += text(3, options.name);
  out += text(4, op);
  for (const auto& [name, value] : options.attrs) out += text(5, attribute(name, value));
  if (!options.domain.empty()) out += text(7, options.domain);
  const bool known = options.domain.empty() ||
                     std::find(domains_.begin(), domains_.end(), options.domain) != domains_.end();
  if (!known) domains_.push_back(options.domain);
  nodes_ += text(1, out);
  return *this;
}

std::string OnnxWriter::bytes() const {
  const std::string graph = nodes_ + text(2, "graph") + initializers_ + inputs_ + outputs_;
  std::string out = integer(1, 8) + text(7, graph) + text(8, text(1, "") + integer(2, opset_));
  for (const std::string& domain : domains_) out += text(8, text(1, domain) + integer(2, 1));
  return out;
}

std::string onnx_tensor(const HostTensor& tensor, const std::string& name) {
  return tensor_fields(name, tensor.dtype(), tensor.dims(), raw_bytes(tensor));
}

HostTensor float_tensor(const std::vector<int64_t>& dims, float scale, float offset) {
  HostTensor t(DType::F32, dims);
  for (int64_t i = 0; i < t.count(); ++i) {
    // Spread over [-1, 1] without a pattern that a wrong stride could hit by chance.
    const auto mixed = static_cast<float>((static_cast<uint64_t>(i) * 2654435761u) % 2048);
    t.mutable_data<float>()[i] = offset + scale * (mixed / 1024.0f - 1.0f);
  }
  return t;
}

HostTensor int64_tensor(const std::vector<int64_t>& dims, const std::vector<int64_t>& values) {
  return HostTensor::from(DType::I64, dims, values);
}

}  // namespace reprise::test
