// Joins accesses to neighbouring vectors of 4 narrow elements to one of up to 16 bytes. A GPU moves
// 16 bytes by one instruction of an invocation, so that more memory is under way at a time.
//
// Loads move up to the first of those that are joined, stores down to the last. Nothing in between
// may access the same memory in a way that the move would change.
#include <algorithm>
#include <map>
#include <optional>

#include "codegen/kernel/build/rebuild.h"
#include "codegen/kernel/legal/index_form.h"

namespace reprise::kernel {

namespace {

/// An access that is joined with others.
struct Joined {
  size_t vector = 0;   // the number of the long vector
  int part = 0;        // the part of it that the access moves
  int lanes = 0;       // of the long vector
  bool moves = false;  // the whole vector is moved here
};

class NeighbourFinder {
 public:
  explicit NeighbourFinder(const Kernel& k)
      : k_(k), forms_(k), order_(k.insts.size()), joined_(k.insts.size()) {
    for (const Block& b : k.blocks) block(b);
  }

  /// By instruction.
  const std::vector<std::optional<Joined>>& joined() const { return joined_; }
  /// The number of long vectors.
  size_t vectors() const { return vectors_; }

 private:
  /// A buffer or shared array.
  struct Memory {
    bool shared = false;
    uint64_t number = 0;
    auto operator<=>(const Memory&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  using Terms = std::map<int32_t, uint32_t>;
  /// Accesses of a block that may still be joined, whose indices differ by constants: instructions
  /// by the constant.
  using Neighbours = std::map<int32_t, int32_t>;
  using Open = std::map<std::pair<Memory, Terms>, Neighbours>;

  const Inst& inst(int32_t id) const { return k_.insts[static_cast<size_t>(id)]; }

  int element_size(const Memory& m) const {
    return byte_size(m.shared ? k_.shared[m.number].type : k_.buffers[m.number].storage);
  }

  /// Of an access.
  int most_bytes(const Memory& m) const {
    const uint32_t aligned = m.shared ? kMostAccessBytes : k_.buffers[m.number].align;
    return std::min(kMostAccessBytes, static_cast<int>(aligned));
  }

  /// Whether the kernel may write what it reads there.
  bool may_change(const Memory& m) const {
    return m.shared || k_.buffers[m.number].access != Access::Read;
  }

  void block(const Block& block) {
    const auto is_shared = [](const Memory& m) { return m.shared; };
    const auto all = [](const Memory&) { return true; };
    for (size_t place = 0; place < block.insts.size(); ++place) {
      const int32_t id = block.insts[place];
      const Inst& i = inst(id);
      order_[static_cast<size_t>(id)] = place;
      const bool shared = i.op == Op::SharedLoad || i.op == Op::SharedStore;
      if (i.op == Op::Load || i.op == Op::SharedLoad) {
        load(id, {shared, i.imm});
      } else if (i.op == Op::Store || i.op == Op::SharedStore) {
        store(id, {shared, i.imm});
      } else if (!i.blocks.empty()) {
        close(loads_, [&](const Memory& m) { return may_change(m); });
        close(stores_, all);
      } else if (!is_value(i.op) && i.op != Op::LocalStore) {
        close(loads_, is_shared);
        close(stores_, is_shared);
      }
    }
    close(loads_, all);
    close(stores_, all);
  }

  bool is_narrow(const Memory& m) const { return element_size(m) <= 2; }

  void load(int32_t id, const Memory& memory) {
    if (!is_narrow(memory)) return;
    close(stores_, [&](const Memory& m) { return m == memory; });
    if (inst(id).type.lanes == kPartLanes) note(loads_, id, memory);
  }

  void store(int32_t id, const Memory& memory) {
    if (!is_narrow(memory)) return;
    const auto same = [&](const Memory& m) { return m == memory; };
    close(loads_, same);
    const Inst& i = inst(id);
    const bool is_part = i.args.size() == 2 && inst(i.args[1].id).type.lanes == kPartLanes;
    const bool neighbour = is_part && stores_.contains({memory, forms_.form(i.args[0]).terms});
    if (!neighbour) close(stores_, same);
    if (is_part) note(stores_, id, memory);
  }

  void note(Open& open, int32_t id, const Memory& memory) {
    const IndexForm& form = forms_.form(inst(id).args[0]);
    const auto constant = static_cast<int32_t>(form.constant);
    const std::pair key{memory, form.terms};
    if (const auto it = open.find(key); it != open.end() && it->second.contains(constant)) {
      join(it->first, it->second, &open == &loads_);
      open.erase(it);
    }
    open[key].emplace(constant, id);
  }

  template <typename Condition>
  void close(Open& open, const Condition& condition) {
    for (auto it = open.begin(); it != open.end();) {
      const bool ends = condition(it->first.first);
      if (ends) join(it->first, it->second, &open == &loads_);
      it = ends ? open.erase(it) : std::next(it);
    }
  }

  void join(const std::pair<Memory, Terms>& where, const Neighbours& all, bool loads) {
    if (all.size() < 2) return;
    const int most = most_bytes(where.first) / element_size(where.first);
    const int64_t divisor = forms_.divisor({where.second, 0});
    for (auto first = all.begin(); first != all.end();) {
      int lanes = most;
      while (lanes > kPartLanes && !fills(all, first->first, lanes, divisor)) lanes /= 2;
      if (lanes > kPartLanes) join_vector(all, first->first, lanes, loads);
      std::advance(first, lanes / kPartLanes);
    }
  }

  /// Whether all parts of the vector from a constant on are there, and its index is a multiple of
  /// its lanes.
  static bool fills(const Neighbours& all, int32_t first, int lanes, int64_t divisor) {
    if (divisor % lanes != 0 || first % lanes != 0) return false;
    for (int at = 0; at < lanes; at += kPartLanes)
      if (!all.contains(first + at)) return false;
    return true;
  }

  void join_vector(const Neighbours& all, int32_t first, int lanes, bool loads) {
    int32_t moving = all.at(first);
    const auto precedes = [&](int32_t a, int32_t b) {
      return order_[static_cast<size_t>(a)] < order_[static_cast<size_t>(b)];
    };
    for (int at = 0; at < lanes; at += kPartLanes) {
      const int32_t id = all.at(first + at);
      if (loads ? precedes(id, moving) : precedes(moving, id)) moving = id;
      joined_[static_cast<size_t>(id)] = Joined{vectors_, at / kPartLanes, lanes, false};
    }
    joined_[static_cast<size_t>(moving)]->moves = true;
    ++vectors_;
  }

  const Kernel& k_;
  IndexForms forms_;
  std::vector<size_t> order_;  // of an instruction in its block
  std::vector<std::optional<Joined>> joined_;
  size_t vectors_ = 0;
  Open loads_, stores_;
};

class Joiner final : public Rebuilder {
 public:
  Joiner(const Kernel& k, const NeighbourFinder& found)
      : Rebuilder(k, Builder::like(k)), joined_(found.joined()), vectors_(found.vectors()) {}

 protected:
  Val rewrite(const Inst& i, std::span<const Val> args) override {
    const std::optional<Joined>& j = joined_[static_cast<size_t>(&i - from_.insts.data())];
    if (!j) return copy(i, args);
    std::vector<Val>& vector = vectors_[j->vector];
    const bool is_load = is_value(i.op);
    if (is_load) {
      if (j->moves) vector = {load(i, first_index(args[0], *j), j->lanes)};
      return to_.part(vector[0], j->part);
    }
    vector.resize(static_cast<size_t>(j->lanes / kPartLanes));
    vector[static_cast<size_t>(j->part)] = args[1];
    if (j->moves) store(i, first_index(args[0], *j), to_.compose(vector));
    return {};
  }

 private:
  Val first_index(Val index, const Joined& j) {
    const auto before = static_cast<uint32_t>(-j.part * kPartLanes);
    return to_.add(index, to_.constant_bits(to_.type(index), before));
  }

  Val load(const Inst& i, Val index, int lanes) {
    const int memory = static_cast<int>(i.imm);
    if (i.op == Op::SharedLoad) return to_.shared_load(memory, index, lanes);
    return to_.load(memory, index, lanes, static_cast<uint32_t>(lanes));
  }

  void store(const Inst& i, Val index, Val value) {
    const int memory = static_cast<int>(i.imm);
    if (i.op == Op::SharedStore) return to_.shared_store(memory, index, value);
    to_.store(memory, index, value, to_.type(value).lanes);
  }

  const std::vector<std::optional<Joined>>& joined_;
  std::vector<std::vector<Val>> vectors_;  // the vector that is loaded, or the parts to store
};

}  // namespace

Status join_accesses(Kernel& k) {
  const NeighbourFinder found(k);
  if (found.vectors() == 0) return {};
  RP_ASSIGN(k, Joiner(k, found).run());
  remove_dead(k);
  return {};
}

}  // namespace reprise::kernel
