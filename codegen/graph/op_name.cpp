#include "codegen/graph/op_name.h"

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace reprise::graph {

const std::string& OpName::str() const {
  static const std::string empty;
  return entry_ == nullptr ? empty : entry_->text;
}

const OpName::Entry* OpName::intern(std::string_view text) {
  struct Table {
    std::shared_mutex mutex;
    std::unordered_map<std::string_view, std::unique_ptr<const Entry>> entries;
  };
  // Never destroyed, because other static objects may hold names.
  static Table& table = *new Table;
  if (text.empty()) return nullptr;
  {
    const std::shared_lock lock(table.mutex);
    const auto known = table.entries.find(text);
    if (known != table.entries.end()) return known->second.get();
  }
  const std::unique_lock lock(table.mutex);
  const auto known = table.entries.find(text);
  if (known != table.entries.end()) return known->second.get();
  auto entry = std::make_unique<const Entry>(Entry{std::string(text), table.entries.size() + 1});
  const Entry* made = entry.get();
  table.entries.emplace(made->text, std::move(entry));
  return made;
}

}  // namespace reprise::graph
