// What applications hold handles of. A handle is a number that is never given out twice and that
// no memory lies behind: one that was destroyed is known as such.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace reprise::standin {

enum class Kind : unsigned char {
  Context,
  Module,
  Function,
  Stream,
  Event,
  Graph,
  Node,
  Exec,
  External
};
const char* kind_name(Kind kind);

struct Object {
  explicit Object(Kind k) : kind(k) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  Kind kind;
  uint64_t id = 0;       // the handle
  uint64_t context = 0;  // the handle of its context
  /// Whether the application has to destroy it: functions and nodes go with what they are part of.
  bool owned() const { return kind != Kind::Function && kind != Kind::Node; }
  std::string name() const;
};

/// Not thread-safe: the driver's mutex guards it.
class Handles {
 public:
  template <typename T>
  typename T::Handle add(const std::shared_ptr<T>& object) {
    object->id = next_;
    next_ += 16;
    objects_[object->id] = object;
    return reinterpret_cast<typename T::Handle>(object->id);
  }
  /// Null when the handle is not a live T.
  template <typename T>
  std::shared_ptr<T> find(typename T::Handle handle) const {
    const auto it = objects_.find(reinterpret_cast<uint64_t>(handle));
    if (it == objects_.end() || it->second->kind != T::kKind) return nullptr;
    return std::static_pointer_cast<T>(it->second);
  }
  /// What is wrong with a handle that find() does not know.
  std::string problem(const void* handle, Kind wanted) const;
  void remove(uint64_t id) { objects_.erase(id); }
  const std::map<uint64_t, std::shared_ptr<Object>>& all() const { return objects_; }

 private:
  static constexpr uint64_t kFirst = 0x5ED0000000000010U;
  uint64_t next_ = kFirst;
  std::map<uint64_t, std::shared_ptr<Object>> objects_;
};

}  // namespace reprise::standin
