// Operators of ai.onnx.ml that look values up: LabelEncoder, CategoryMapper, OneHotEncoder, and
// those on maps: ZipMap, DictVectorizer, CastMap.
#include <cmath>
#include <map>
#include <optional>

#include "runtime/host/support.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

HostTensor strings_tensor(const std::vector<std::string>& list) {
  HostTensor t(DType::String, {static_cast<int64_t>(list.size())});
  t.mutable_strings() = list;
  return t;
}

/// The attribute NAMEs, of strings, int64s, floats or a tensor; nothing if there is none.
std::optional<HostTensor> list_attribute(const Call& c, const std::string& name) {
  if (const auto* t = c.attrs.get<HostTensor>(name + "_tensor")) return *t;
  if (const auto* s = c.attrs.get<std::vector<std::string>>(name + "_strings"))
    return strings_tensor(*s);
  if (const auto* i = c.attrs.get<std::vector<int64_t>>(name + "_int64s"))
    return HostTensor::from(DType::I64, {static_cast<int64_t>(i->size())}, *i);
  if (const auto* f = c.attrs.get<std::vector<float>>(name + "_floats"))
    return HostTensor::from(DType::F32, {static_cast<int64_t>(f->size())}, *f);
  return std::nullopt;
}

/// Positions in a list of keys. NaN equals NaN.
class Index {
 public:
  explicit Index(const HostTensor& keys) {
    for (int64_t i = 0; i < keys.count(); ++i) {
      if (keys.dtype() == DType::String) {
        strings_.emplace(keys.strings()[static_cast<size_t>(i)], i);
      } else if (domain_of(keys.dtype()) == Domain::Float) {
        double v = 0;
        load(keys, i, 1, 1, &v);
        if (std::isnan(v)) {
          nan_ = nan_.value_or(i);
        } else {
          floats_.emplace(v, i);
        }
      } else {
        int64_t v = 0;
        load(keys, i, 1, 1, &v);
        integers_.emplace(v, i);
      }
    }
  }

  std::optional<int64_t> find(const HostTensor& t, int64_t i) const {
    if (t.dtype() == DType::String) return at(strings_, t.strings()[static_cast<size_t>(i)]);
    if (domain_of(t.dtype()) == Domain::Float) {
      double v = 0;
      load(t, i, 1, 1, &v);
      return std::isnan(v) ? nan_ : at(floats_, v);
    }
    int64_t v = 0;
    load(t, i, 1, 1, &v);
    return at(integers_, v);
  }

 private:
  template <typename Map, typename Key>
  static std::optional<int64_t> at(const Map& map, const Key& key) {
    const auto it = map.find(key);
    return it == map.end() ? std::nullopt : std::optional(it->second);
  }

  std::map<std::string, int64_t> strings_;
  std::map<int64_t, int64_t> integers_;
  std::map<double, int64_t> floats_;
  std::optional<int64_t> nan_;
};

/// For each element of input 0 the value at its key, or the default.
KernelResult look_up(const Call& c, const HostTensor& keys, const HostTensor& values,
                     const HostTensor& fallback) {
  const HostTensor& x = input(c, 0);
  if (keys.count() != values.count()) {
    return invalid_model("it has " + std::to_string(keys.count()) + " keys, but " +
                         std::to_string(values.count()) + " values");
  }
  if (x.dtype() != keys.dtype()) return wrong_dtype(c, 0, "keys", name_of(keys.dtype()));
  if (fallback.count() != 1 || fallback.dtype() != values.dtype()) {
    return invalid_model("its default is " + describe(fallback.dtype(), fallback.dims()) +
                         ", but its values are " + std::string(name_of(values.dtype())));
  }
  const Index index(keys);
  RP_ASSIGN(HostTensor y, allocate(values.dtype(), x.dims()));
  for (int64_t i = 0; i < x.count(); ++i) {
    const std::optional<int64_t> at = index.find(x, i);
    copy_block(y, i, at ? values : fallback, at.value_or(0), 1);
  }
  return one(std::move(y));
}

/// The default of values of this dtype.
HostTensor default_value(const Call& c, DType dtype) {
  if (const auto* t = c.attrs.get<HostTensor>("default_tensor")) return *t;
  if (dtype == DType::String) {
    return strings_tensor({c.attrs.get_string("default_string", "_Unused")});
  }
  if (dtype == DType::I64)
    return HostTensor::from<int64_t>(DType::I64, {1}, {c.attrs.get_int("default_int64", -1)});
  return HostTensor::from<float>(DType::F32, {1}, {c.attrs.get_float("default_float", -0.0F)});
}

/// Maps strings to the numbers of classes, or numbers to strings.
KernelResult map_classes(const Call& c, const HostTensor& names, const HostTensor& numbers) {
  const bool to_number = input(c, 0).dtype() == DType::String;
  const HostTensor& values = to_number ? numbers : names;
  return look_up(c, to_number ? names : numbers, values, default_value(c, values.dtype()));
}

KernelResult label_encoder(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  if (const auto* classes = c.attrs.get<std::vector<std::string>>("classes_strings")) {
    std::vector<int64_t> numbers(classes->size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
    return map_classes(
        c, strings_tensor(*classes),
        HostTensor::from(DType::I64, {static_cast<int64_t>(numbers.size())}, numbers));
  }
  const std::optional<HostTensor> keys = list_attribute(c, "keys");
  const std::optional<HostTensor> values = list_attribute(c, "values");
  if (!keys || !values) return invalid_model("its keys or values are missing");
  return look_up(c, *keys, *values, default_value(c, values->dtype()));
}

KernelResult category_mapper(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const std::optional<HostTensor> names = list_attribute(c, "cats");
  const auto* numbers = c.attrs.get<std::vector<int64_t>>("cats_int64s");
  if (!names || names->dtype() != DType::String || numbers == nullptr)
    return invalid_model("attributes 'cats_strings' and 'cats_int64s' are both needed");
  return map_classes(
      c, *names, HostTensor::from(DType::I64, {static_cast<int64_t>(numbers->size())}, *numbers));
}

KernelResult one_hot_encoder(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const std::optional<HostTensor> categories = list_attribute(c, "cats");
  if (!categories) return invalid_model("it has no categories");
  const HostTensor& x = input(c, 0);
  if ((x.dtype() == DType::String) != (categories->dtype() == DType::String))
    return wrong_dtype(c, 0, "categories", name_of(categories->dtype()));
  const Index index(*categories);
  Dims dims = x.dims();
  dims.push_back(categories->count());
  RP_ASSIGN(HostTensor y, allocate(DType::F32, dims));
  for (int64_t i = 0; i < x.count(); ++i) {
    HostTensor number(DType::I64, {1});
    if (x.dtype() != DType::String) {
      double v = 0;
      load(x, i, 1, 1, &v);
      number.mutable_data<int64_t>()[0] = saturate_i64(v);
    }
    const auto at = x.dtype() == DType::String ? index.find(x, i) : index.find(number, 0);
    if (at) y.mutable_data<float>()[i * categories->count() + *at] = 1;
    if (!at && c.attrs.get_int("zeros", 1) == 0)
      return invalid_input("element " + std::to_string(i) + " of the input is in no category");
  }
  return one(std::move(y));
}

// --- maps

Status require_map(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const Container kind = container_of(input(c, 0).dtype());
  const bool map = kind == Container::IntMap || kind == Container::StringMap;
  return map && input(c, 0).items().size() == 2 ? Status() : wrong_dtype(c, 0, "map", "a map");
}

/// A map from the class labels to the elements of each row.
KernelResult zip_map(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& x = input(c, 0);
  const std::optional<HostTensor> labels = list_attribute(c, "classlabels");
  if (!labels || domain_of(labels->dtype()) == Domain::Float)
    return invalid_model("it has no class labels");
  RP_TRY(require_rank(c, 0, "X", 1, 2));
  if (x.dims().back() != labels->count()) {
    return invalid_input("rows of " + std::to_string(x.dims().back()) + " elements do not fit " +
                         std::to_string(labels->count()) + " class labels");
  }
  const bool strings = labels->dtype() == DType::String;
  Tensors maps;
  for (int64_t row = 0; row < (x.rank() == 1 ? 1 : x.dims()[0]); ++row) {
    RP_ASSIGN(HostTensor values, allocate(x.dtype(), {labels->count()}));
    copy_block(values, 0, x, row * labels->count(), labels->count());
    maps.push_back(HostTensor::container(
        in_container(strings ? Container::StringMap : Container::IntMap, x.dtype()),
        {*labels, std::move(values)}));
  }
  return one(HostTensor::container(
      in_container(strings ? Container::SequenceOfStringMaps : Container::SequenceOfIntMaps,
                   x.dtype()),
      std::move(maps)));
}

/// The map's values at the keys of the vocabulary.
KernelResult dict_vectorizer(const Call& c) {
  RP_TRY(require_map(c));
  const auto* strings = c.attrs.get<std::vector<std::string>>("string_vocabulary");
  const auto* integers = c.attrs.get<std::vector<int64_t>>("int64_vocabulary");
  if (strings == nullptr && integers == nullptr) return invalid_model("it has no vocabulary");
  HostTensor keys =
      strings ? strings_tensor(*strings)
              : HostTensor::from(DType::I64, {static_cast<int64_t>(integers->size())}, *integers);
  keys = keys.reshaped({1, keys.count()});
  const HostTensor& values = input(c, 0).items()[1];
  const HostTensor* inputs[] = {&keys};
  return look_up({.op = c.op, .attrs = c.attrs, .inputs = inputs}, input(c, 0).items()[0], values,
                 HostTensor(values.dtype(), {1}));
}

/// The map's values in the order of its keys, or each at the position that its key is.
KernelResult cast_map(const Call& c) {
  RP_TRY(require_map(c));
  const HostTensor& keys = input(c, 0).items()[0];
  if (keys.dtype() != DType::I64) return wrong_dtype(c, 0, "map", "a map from int64");
  const auto* key = keys.data<int64_t>();
  const std::string to = c.attrs.get_string("cast_to", "TO_FLOAT");
  AttrMap attrs;
  attrs.set("to", int64_t{onnx_number_of(to == "TO_FLOAT"    ? DType::F32
                                         : to == "TO_STRING" ? DType::String
                                                             : DType::I64)});
  const HostTensor* values = &input(c, 0).items()[1];
  static constexpr TableFunction kFamily[] = {cast_table};  // find() would bring all
  RP_ASSIGN(
      const Tensors cast,
      KernelSet{kFamily}.run({.op = "Cast", .attrs = attrs, .inputs = std::span(&values, 1)}));
  std::map<int64_t, int64_t> order;
  for (int64_t i = 0; i < keys.count(); ++i) order.emplace(key[i], i);
  const bool sparse = c.attrs.get_string("map_form", "DENSE") == "SPARSE";
  const int64_t width = sparse ? c.attrs.get_int("max_map", 1) : std::ssize(order);
  RP_ASSIGN(HostTensor y, allocate(cast[0].dtype(), {1, width}));
  int64_t next = 0;
  for (const auto& [k, i] : order) {
    const int64_t at = sparse ? k : next++;
    if (at < 0 || at >= width) {
      return invalid_input("key " + std::to_string(at) + " is not in [0, " + std::to_string(width) +
                           "), which 'max_map' states");
    }
    copy_block(y, at, cast[0], i, 1);
  }
  return one(std::move(y));
}

}  // namespace

Table ml_maps_table() {
  static constexpr Entry kTable[] = {{"CastMap", cast_map}, {"DictVectorizer", dict_vectorizer}};
  return kTable;
}

Table ml_encode_table() {
  static constexpr Entry kTable[] = {{"CategoryMapper", category_mapper},
                                     {"LabelEncoder", label_encoder},
                                     {"OneHotEncoder", one_hot_encoder},
                                     {"ZipMap", zip_map}};
  return kTable;
}

}  // namespace reprise::host
