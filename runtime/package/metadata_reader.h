// Decodes numbers, strings, lists and expressions for decode.cpp. Internal to runtime/package.
#pragma once

#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "package_generated.h"
#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/expr/expr.h"
#include "runtime/plan/plan.h"

namespace reprise::package {

template <typename T>
using Table = flatbuffers::Vector<flatbuffers::Offset<T>>;
using Strings = Table<flatbuffers::String>;

inline Status malformed(const std::string& what) {
  return corrupt_package("is invalid: " + what);
}

/// In a malicious file, tables can share parts, so that little metadata describes much memory. The
/// reader therefore has a budget of bytes that it may allocate.
class MetadataReader {
 public:
  explicit MetadataReader(size_t metadata_bytes)
      : budget_((uint64_t{64} << 20) + 64 * uint64_t{metadata_bytes}) {}

 protected:
  Status spend(uint64_t bytes) {
    if (bytes > budget_) return malformed("its metadata describes more memory than is plausible");
    budget_ -= bytes;
    return {};
  }

  Status string(const flatbuffers::String* from, std::string& to) {
    if (!from) return {};
    RP_TRY(spend(from->size()));
    to.assign(from->c_str(), from->size());
    return {};
  }

  Status image(const fb::Slot& from, plan::Slot& to) {
    to.image = static_cast<ImageFormat>(from.image());
    return string(from.processing(), to.processing);
  }

  /// Copies bytes, because the verifier does not check that 64-bit elements of a vector are
  /// aligned.
  template <typename T>
  Status numbers(const flatbuffers::Vector<T>* from, std::vector<T>& to) {
    if (!from || from->size() == 0) return {};
    RP_TRY(spend(uint64_t{from->size()} * sizeof(T)));
    to.resize(from->size());
    std::memcpy(to.data(), from->Data(), to.size() * sizeof(T));
    return {};
  }

  Status flags(const flatbuffers::Vector<uint8_t>* from, std::vector<bool>& to) {
    if (!from) return {};
    RP_TRY(spend(from->size()));
    to.assign(from->begin(), from->end());
    return {};
  }

  Status properties(const Table<fb::Property>* from,
                    std::vector<std::pair<std::string, std::string>>& to) {
    using Pair = std::pair<std::string, std::string>;
    return list(from, to, [this](const fb::Property& f, Pair& t) -> Status {
      RP_TRY(string(f.name(), t.first));
      return string(f.value(), t.second);
    });
  }

  template <typename T, typename List, typename F>
  Status list(const Table<T>* from, List& to, F&& decode_one) {
    if (!from) return {};
    RP_TRY(spend(uint64_t{from->size()} * sizeof(typename List::value_type)));
    to.resize(from->size());
    auto entry = to.begin();
    for (uint32_t i = 0; i < from->size(); ++i) {
      const auto* item = from->Get(i);
      if (!item) return malformed("an entry is missing");
      RP_TRY(decode_one(*item, *entry++));
    }
    return {};
  }

  Status strings(const Strings* from, std::vector<std::string>& to) {
    return list(from, to,
                [this](const flatbuffers::String& f, std::string& t) { return string(&f, t); });
  }

  Status string_tensor(const Strings* from, std::vector<int64_t> dims, HostTensor& to) {
    std::vector<std::string> values;
    RP_TRY(strings(from, values));
    to = HostTensor(DType::String, std::move(dims));
    to.mutable_strings() = std::move(values);
    return {};
  }

  /// Launches share most lists of expressions, so each list is decoded once.
  Status exprs(const flatbuffers::Vector<int64_t>* from, std::vector<Expr>& to) {
    if (!from) return {};
    const auto known = exprs_.find(from);
    if (known == exprs_.end()) {
      std::vector<Expr> made;
      RP_TRY(decode_exprs(*from, made));
      to = exprs_.emplace(from, std::move(made)).first->second;
      return {};
    }
    RP_TRY(spend(known->second.size() * sizeof(Expr)));
    to = known->second;
    return {};
  }

  Status decode_exprs(const flatbuffers::Vector<int64_t>& from, std::vector<Expr>& to) {
    RP_TRY(spend(uint64_t{from.size()} * 64));
    std::vector<int64_t> code;
    RP_TRY(numbers(&from, code));
    for (size_t i = 0; i < code.size();) {
      const int64_t length = code[i++];
      if (length < 0 || static_cast<uint64_t>(length) > code.size() - i) {
        return malformed("an expression's length is " + std::to_string(length));
      }
      RP_ASSIGN(Expr e, Expr::decode({code.data() + i, static_cast<size_t>(length)}));
      to.push_back(std::move(e));
      i += static_cast<size_t>(length);
    }
    return {};
  }

 private:
  std::unordered_map<const void*, std::vector<Expr>> exprs_;
  uint64_t budget_;
};

}  // namespace reprise::package
