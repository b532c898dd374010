#include "tests/cuda_standin/driver/handles.h"

namespace reprise::standin {

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::Context:
      return "context";
    case Kind::Module:
      return "module";
    case Kind::Function:
      return "function";
    case Kind::Stream:
      return "stream";
    case Kind::Event:
      return "event";
    case Kind::Graph:
      return "graph";
    case Kind::Node:
      return "graph node";
    case Kind::Exec:
      return "executable graph";
    case Kind::External:
      return "external memory";
  }
  return "object";
}

std::string Object::name() const {
  return std::string(kind_name(kind)) + " " + std::to_string(id >> 4U & 0xFFFFFFFFU);
}

std::string Handles::problem(const void* handle, Kind wanted) const {
  const auto id = reinterpret_cast<uint64_t>(handle);
  const std::string what = kind_name(wanted);
  if (id == 0) return "null in place of: " + what;
  const auto it = objects_.find(id);
  if (it != objects_.end()) return it->second->name() + " in place of: " + what;
  if (id < kFirst || id >= next_ || id % 16 != 0) return "no " + what + " ever had this handle";
  return what + " that was destroyed";
}

}  // namespace reprise::standin
