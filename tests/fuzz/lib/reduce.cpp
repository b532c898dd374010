#include "tests/fuzz/lib/reduce.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

namespace reprise::fuzz {

namespace {

/// A message without what differs between two programs: quoted names and numbers.
std::string shape_of(const std::string& message) {
  std::string out;
  bool quoted = false;
  for (const char c : message) {
    if (c == '\'') quoted = !quoted;
    if (quoted || (c >= '0' && c <= '9')) continue;
    out += c;
  }
  return out;
}

class Reducer {
 public:
  Reducer(const Program& program, const Failure& failure, const Fails& fails, double seconds)
      : best_{program, failure, 0},
        fails_(fails),
        end_(std::chrono::steady_clock::now() +
             std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000))) {}

  Reduced run() {
    for (bool smaller = true; smaller && !late();) {
      smaller = false;
      smaller |= outputs();
      smaller |= prefixes();
      smaller |= cuts();
      smaller |= bypasses();
      smaller |= body_results();
      smaller |= inlined();
      smaller |= body_constants();
      smaller |= configuration();
      smaller |= runs();
      smaller |= sizes();
      smaller |= attributes();
      smaller |= values();
    }
    return best_;
  }

 private:
  bool late() const { return std::chrono::steady_clock::now() > end_; }

  bool try_program(Program p, const Config& config) {
    if (late()) return false;
    p.remove_unused();
    if (p.nodes.empty() || p.outputs.empty()) return false;
    if (p.str() == best_.program.str() && config.str() == best_.failure.config.str()) return false;
    ++best_.tries;
    const auto failure = fails_(p, config);
    if (!failure || failure->kind != best_.failure.kind) return false;
    const bool errors =
        failure->kind == Failure::Kind::Error || failure->kind == Failure::Kind::Invalid;
    if (errors && shape_of(failure->message) != shape_of(best_.failure.message)) return false;
    best_.program = std::move(p);
    best_.failure = *failure;
    return true;
  }
  bool try_program(Program p) { return try_program(std::move(p), best_.failure.config); }
  const Program& now() const { return best_.program; }

  /// One output, or all but one.
  bool outputs() {
    bool smaller = false;
    for (size_t i = 0; i < now().outputs.size() && now().outputs.size() > 1; ++i) {
      Program p = now();
      p.outputs = {p.outputs[i]};
      if (try_program(std::move(p))) return true;
    }
    for (size_t i = now().outputs.size(); i-- > 0 && now().outputs.size() > 1;) {
      Program p = now();
      p.outputs.erase(p.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      smaller |= try_program(std::move(p));
    }
    return smaller;
  }

  /// Nothing but what one node's results need.
  bool prefixes() {
    for (size_t i = 0; i + 1 < now().nodes.size(); ++i) {
      Program p = now();
      p.outputs.clear();
      for (const std::string& o : p.nodes[i].outputs) {
        if (!o.empty()) p.outputs.push_back(o);
      }
      if (try_program(std::move(p))) return true;
    }
    return false;
  }

  /// A node's result becomes an input, of the type that it has.
  bool cuts() {
    bool smaller = false;
    for (size_t i = now().nodes.size(); i-- > 0;) {
      if (i >= now().nodes.size()) continue;
      Program p = now();
      const Program::Node node = p.nodes[i];
      const auto typed = graph::parse(p.str());
      if (!typed.ok()) return smaller;
      p.nodes.erase(p.nodes.begin() + static_cast<std::ptrdiff_t>(i));
      bool known = true;
      for (const std::string& o : node.outputs) {
        if (!o.empty()) known = known && add_input(p, **typed, o);
      }
      if (known) smaller |= try_program(std::move(p));
    }
    return smaller;
  }

  static bool add_input(Program& p, const graph::Graph& typed, const std::string& name) {
    for (const graph::Value& v : typed.values()) {
      if (v.name != name) continue;
      Program::Input in{name, v.dtype, {}};
      for (const Expr& d : v.shape) {
        if (!d.is_const() && !d.as_symbol()) return false;
        if (d.as_symbol() && typed.symbol_sources[static_cast<size_t>(*d.as_symbol())].kind !=
                                 SymbolSource::Kind::InputDim)
          return false;
        in.dims.push_back(d.str(typed.symbols));
      }
      std::erase(p.outputs, name);
      p.inputs.push_back(std::move(in));
      return true;
    }
    return false;
  }

  /// The program's statements and those of all bodies, always in the same order.
  static std::vector<Block*> blocks(Block& b) {
    std::vector<Block*> out{&b};
    for (Block::Node& n : b.nodes) {
      for (Block& body : n.bodies) {
        const std::vector<Block*> inner = blocks(body);
        out.insert(out.end(), inner.begin(), inner.end());
      }
    }
    return out;
  }
  size_t block_count() const {
    Program p = now();
    return blocks(p).size();
  }
  /// Tries `change(block, i)`, for each node of each block, from the last to the first.
  template <typename F>
  bool each_node(const F& change) {
    bool smaller = false;
    for (size_t k = block_count(); k-- > 0;) {
      for (size_t i = node_count(k); i-- > 0;) {
        if (k >= block_count() || i >= node_count(k)) continue;
        Program p = now();
        Block& b = *blocks(p)[k];
        if (change(b, i)) smaller |= try_program(std::move(p));
      }
    }
    return smaller;
  }
  size_t node_count(size_t block) const {
    Program p = now();
    return blocks(p)[block]->nodes.size();
  }

  static void rename(Block& b, const std::string& from, const std::string& to) {
    for (Block::Node& n : b.nodes) std::replace(n.inputs.begin(), n.inputs.end(), from, to);
    std::replace(b.outputs.begin(), b.outputs.end(), from, to);
  }

  /// What reads a node's first result reads one of its operands instead.
  bool bypasses() {
    bool smaller = false;
    for (size_t operand = 0; operand < 4; ++operand) {
      smaller |= each_node([operand](Block& b, size_t i) {
        const Block::Node node = b.nodes[i];
        if (operand >= node.inputs.size() || node.inputs[operand].empty()) return false;
        b.nodes.erase(b.nodes.begin() + static_cast<std::ptrdiff_t>(i));
        const std::string to = node.inputs[operand];
        if (b.is_body) {
          rename(b, node.outputs[0], to);
        } else {
          for (Block::Node& n : b.nodes)
            std::replace(n.inputs.begin(), n.inputs.end(), node.outputs[0], to);
          std::erase(b.outputs, node.outputs[0]);
        }
        return true;
      });
    }
    return smaller;
  }

  /// The first of the node's results among what its bodies return, and among what they take and the
  /// node reads.
  struct Positions {
    size_t output, input, operand, carried;
  };
  static Positions positions(const Block::Node& n) {
    const size_t taken = n.bodies[0].inputs.size();
    if (n.op == "Loop") return {1, 2, 2, taken - 2};
    if (n.op == "If") return {0, 0, 1, 0};
    return {0, 0, 0, taken - static_cast<size_t>(n.attrs.get_int("num_scan_inputs", 0))};
  }

  /// A result of a node with bodies goes, with the state that it is of.
  bool body_results() {
    bool smaller = false;
    for (size_t o = 8; o-- > 0;) {
      smaller |= each_node([o](Block& b, size_t i) {
        Block::Node& n = b.nodes[i];
        if (n.bodies.empty() || o >= n.outputs.size() || n.outputs.size() == 1) return false;
        const Positions at = positions(n);
        if (b.is_body &&
            std::find(b.outputs.begin(), b.outputs.end(), n.outputs[o]) != b.outputs.end())
          return false;
        const auto erase = [](auto& list, size_t k) {
          list.erase(list.begin() + static_cast<std::ptrdiff_t>(k));
        };
        std::erase(b.outputs, n.outputs[o]);
        erase(n.outputs, o);
        erase(n.types, o);
        for (Block& body : n.bodies) erase(body.outputs, at.output + o);
        if (n.op == "If") return true;
        if (o < at.carried) {
          // What reads the state in the body reads its first value.
          Block& body = n.bodies[0];
          Block::Input state = body.inputs[at.input + o];
          erase(body.inputs, at.input + o);
          const std::string first = n.inputs[at.operand + o];
          erase(n.inputs, at.operand + o);
          body.captures.push_back(std::move(state));
          n.inputs.push_back(first);
          return true;
        }
        for (const char* name : {"scan_output_axes", "scan_output_directions"}) {
          std::vector<int64_t> list = n.attrs.get_ints(name);
          if (list.empty()) continue;
          erase(list, o - at.carried);
          n.attrs.set(name, list);
        }
        return true;
      });
    }
    return smaller;
  }

  /// A node becomes what its body does, once. What it stacks goes.
  bool inlined() {
    bool smaller = false;
    for (size_t which = 0; which < 2; ++which) {
      smaller |= each_node([this, which](Block& b, size_t i) {
        const Block::Node n = b.nodes[i];
        if (which >= n.bodies.size()) return false;
        return write_out(b, i, n.bodies[which], "i" + std::to_string(++written_out_) + "_");
      });
    }
    return smaller;
  }

  static bool write_out(Block& b, size_t i, Block body, const std::string& prefix) {
    const Block::Node n = b.nodes[i];
    const Positions at = positions(n);
    std::map<std::string, std::string> names;
    const auto own = [&](std::string& name) {
      if (name.empty()) return;
      const auto known = names.find(name);
      name = known == names.end() ? prefix + name : known->second;
    };
    for (size_t k = 0; k < body.captures.size(); ++k)
      names[body.captures[k].name] = n.inputs[n.inputs.size() - body.captures.size() + k];
    for (size_t k = 0; k < at.carried; ++k)
      names[body.inputs[at.input + k].name] = n.inputs[at.operand + k];
    if (n.op == "Loop") {
      body.constants.push_back(
          {body.inputs[0].name, HostTensor::from<int64_t>(DType::I64, {}, {0})});
      body.constants.push_back(
          {body.inputs[1].name, HostTensor::from<uint8_t>(DType::Bool, {}, {1})});
    } else if (n.op == "Scan") {
      return false;
    }
    for (Block::Constant& c : body.constants) own(c.name);
    for (Block::Node& inner : body.nodes) {
      for (auto* list : {&inner.inputs, &inner.outputs})
        for (std::string& name : *list) own(name);
    }
    for (Block::Symbol& s : body.symbols) own(s.source);
    for (std::string& name : body.outputs) own(name);
    const auto place = b.nodes.erase(b.nodes.begin() + static_cast<std::ptrdiff_t>(i));
    b.nodes.insert(place, body.nodes.begin(), body.nodes.end());
    b.constants.insert(b.constants.end(), body.constants.begin(), body.constants.end());
    b.symbols.insert(b.symbols.end(), body.symbols.begin(), body.symbols.end());
    const size_t given = n.op == "If" ? n.outputs.size() : at.carried;
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      const bool returned =
          std::find(b.outputs.begin(), b.outputs.end(), n.outputs[o]) != b.outputs.end();
      if (o < given) {
        rename(b, n.outputs[o], body.outputs[at.output + o]);
      } else if (returned && b.is_body) {
        return false;
      } else {
        std::erase(b.outputs, n.outputs[o]);
      }
    }
    return !b.outputs.empty();
  }

  /// A node's result in a body becomes a constant.
  bool body_constants() {
    const auto typed = graph::parse(now().str());
    if (!typed.ok()) return false;
    std::map<std::string, std::pair<DType, Shape>> types;  // names are nearly unique
    collect_types(**typed, types);
    return each_node([&](Block& b, size_t i) {
      const Block::Node node = b.nodes[i];
      const auto type = types.find(node.outputs[0]);
      if (!b.is_body || node.outputs.size() != 1 || type == types.end() ||
          !is_static(type->second.second))
        return false;
      b.nodes.erase(b.nodes.begin() + static_cast<std::ptrdiff_t>(i));
      b.constants.push_back({node.outputs[0], test::random_values(type->second.first,
                                                                  static_dims(type->second.second),
                                                                  {}, 1, node.outputs[0])});
      return true;
    });
  }
  static void collect_types(const graph::Graph& g,
                            std::map<std::string, std::pair<DType, Shape>>& types) {
    for (const auto& n : g.nodes()) {
      for (const graph::ValueId v : n->outputs)
        if (v != graph::kNone) types[g.value(v).name] = {g.value(v).dtype, g.value(v).shape};
      for (const auto& [label, body] : n->subgraphs) collect_types(*body, types);
    }
  }

  bool configuration() {
    bool smaller = false;
    const auto without = [&](const auto& change) {
      Config c = best_.failure.config;
      change(c);
      smaller |= try_program(now(), c);
    };
    without([](Config& c) { c.disabled.clear(); });
    without([](Config& c) { c.schedule = 0; });
    without([](Config& c) { c.isolate = false; });
    without([](Config& c) { c.replay = true; });
    without([](Config& c) { c.precision = DType::F32; });
    if (best_.failure.config.device.rfind("vulkan", 0) == 0) {
      without([](Config& c) { c.variant.clear(); });
    }
    return smaller;
  }

  /// One run, of fixed sizes.
  bool runs() {
    bool smaller = false;
    size_t most = 0;
    for (const auto& [name, sizes] : now().heading.sizes) most = std::max(most, sizes.size());
    for (size_t r = 0; r < most && most > 1 && !smaller; ++r) {
      Program p = now();
      for (auto& [name, sizes] : p.heading.sizes) sizes = {sizes[std::min(r, sizes.size() - 1)]};
      smaller |= try_program(std::move(p));
    }
    const auto symbols = now().heading.sizes;
    for (const auto& [name, sizes] : symbols) {
      Program p = now();
      for (Program::Input& in : p.inputs) {
        std::replace(in.dims.begin(), in.dims.end(), name, std::to_string(sizes[0]));
      }
      p.heading.sizes.erase(name);
      smaller |= try_program(std::move(p));
    }
    return smaller;
  }

  /// A number that dims have becomes a smaller one, everywhere.
  bool sizes() {
    bool smaller = false;
    std::set<int64_t> found;
    for (const Program::Input& in : now().inputs) {
      for (const std::string& d : in.dims) {
        if (d.find_first_not_of("0123456789") == std::string::npos) found.insert(std::stoll(d));
      }
    }
    for (const Program::Constant& c : now().constants)
      found.insert(c.data.dims().begin(), c.data.dims().end());
    for (auto it = found.rbegin(); it != found.rend(); ++it) {
      for (const int64_t to : {int64_t{1}, int64_t{2}, int64_t{3}, *it / 2, *it - 1}) {
        if (to <= 0 || to >= *it) continue;
        if (try_program(resized(now(), *it, to))) {
          smaller = true;
          break;
        }
      }
    }
    // A leading dim of 1 of a lone input, or of all of them, goes.
    return smaller;
  }

  static Program resized(Program p, int64_t from, int64_t to) {
    for (Program::Input& in : p.inputs) {
      std::replace(in.dims.begin(), in.dims.end(), std::to_string(from), std::to_string(to));
    }
    for (Program::Constant& c : p.constants) {
      std::vector<int64_t> dims = c.data.dims();
      const bool contents =
          is_int(c.data.dtype()) && dims.size() == 1;  // sizes, as Reshape has them
      std::replace(dims.begin(), dims.end(), from, to);
      HostTensor t(c.data.dtype(), dims);
      const size_t bytes = std::min(t.bytes().size(), c.data.bytes().size());
      std::copy_n(c.data.bytes().begin(), bytes, t.mutable_bytes().begin());
      if (contents && c.data.dtype() == DType::I64) {
        std::replace(t.mutable_data<int64_t>(), t.mutable_data<int64_t>() + t.count(), from, to);
      }
      c.data = std::move(t);
    }
    return p;
  }

  bool attributes() {
    bool smaller = false;
    for (size_t i = 0; i < now().nodes.size(); ++i) {
      std::vector<std::string> names;
      for (const auto& [name, value] : now().nodes[i].attrs) names.push_back(name);
      for (const std::string& name : names) {
        Program p = now();
        p.nodes[i].attrs.erase(name);
        smaller |= try_program(std::move(p));
      }
      if (now().nodes[i].inputs.size() < 2) continue;
      Program p = now();
      p.nodes[i].inputs.pop_back();
      smaller |= try_program(std::move(p));
    }
    return smaller;
  }

  bool values() {
    bool smaller = false;
    const auto kinds = now().heading.values;
    for (const auto& [name, kind] : kinds) {
      if (kind.kind == test::Values::Kind::Tame) continue;
      Program p = now();
      p.heading.values.erase(name);
      smaller |= try_program(std::move(p));
    }
    for (size_t i = 0; i < now().constants.size(); ++i) {
      Program p = now();
      const Program::Constant c = p.constants[i];
      p.constants.erase(p.constants.begin() + static_cast<std::ptrdiff_t>(i));
      Program::Input in{c.name, c.data.dtype(), {}};
      for (const int64_t d : c.data.dims()) in.dims.push_back(std::to_string(d));
      p.inputs.push_back(std::move(in));
      if (try_program(std::move(p))) {
        smaller = true;
        --i;
      }
    }
    return smaller;
  }

  Reduced best_;
  int written_out_ = 0;  // bodies, whose names get a prefix
  const Fails& fails_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace

Reduced reduce(const Program& program, const Failure& failure, const Fails& fails, double seconds) {
  return Reducer(program, failure, fails, seconds).run();
}

namespace {

void collect_operators(const Block& b, std::set<std::string>& ops) {
  for (const Block::Node& n : b.nodes) {
    ops.insert(n.op);
    for (const Block& body : n.bodies) collect_operators(body, ops);
  }
}

}  // namespace

std::string signature(const Reduced& r) {
  Config c = r.failure.config;
  if (c.schedule != 0) c.schedule = 1;
  c.variant.clear();
  if (c.device.rfind("vulkan", 0) == 0) c.device = "vulkan";
  std::string out = kind_name(r.failure.kind) + " " + c.str();
  if (r.failure.kind == Failure::Kind::Wrong || r.failure.kind == Failure::Kind::Unstable) {
    std::set<std::string> ops;
    collect_operators(r.program, ops);
    for (const std::string& op : ops) out += " " + op;
    return out;
  }
  return out + " " + shape_of(r.failure.message);
}

}  // namespace reprise::fuzz
