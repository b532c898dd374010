// What warps do with a role of their own: registers that change hands, and hints.
#include "tests/ptx/machine/decode.h"
#include "tests/ptx/machine/values.h"

namespace reprise::test::ptx {
namespace {

/// setmaxnreg; i.number is 1 for .inc, which waits until others have given back enough.
void change_registers(Warp& w, const Instruction& i, uint32_t) {
  const auto count = static_cast<uint32_t>(w.from(i.from[0])[0]);
  uint32_t& own = w.registers_of_thread();
  if (own == 0) return w.fail(i, "setmaxnreg in a kernel without .maxntid, .reqntid or .maxnreg");
  if (count < 24 || count > 256 || count % 8 != 0)
    return w.fail(i, "setmaxnreg to " + std::to_string(count) + " registers");
  const bool grows = i.number == 1;
  if (grows ? own > count : own < count)
    return w.fail(i, "setmaxnreg from " + std::to_string(own) + " registers to " +
                         std::to_string(count) + " in the other direction");
  uint64_t& free = w.group().free_registers;
  const uint64_t wanted = grows ? uint64_t{Warp::kLanes} * (count - own) : 0;
  if (wanted > free)
    return w.give_way(true, std::to_string(wanted - free) + " registers of the workgroup's " +
                                "that are not free");
  free += grows ? 0 : uint64_t{Warp::kLanes} * (own - count);
  free -= wanted;
  own = count;
  ++w.cluster().activity;
  const std::string wrong = w.team().step(w, i, {count});
  if (!wrong.empty()) w.fail(i, wrong);
}

/// The next launch begins when this one is over, and time does not pass.
void take_hint(Warp&, const Instruction&, uint32_t) {}

/// Launches before this one are over, but only from here on may the kernel rely on it.
void await_launches(Warp& w, const Instruction&, uint32_t mask) {
  w.awaited() |= mask;
}

void some_policy(Warp& w, const Instruction& i, uint32_t mask) {
  uint64_t* d = w.to(i.to[0]);
  for_lanes(mask, [&](uint32_t l) { d[l] = 0; });
}

bool decode_hint(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  i.run = take_hint;
  if (op == "griddepcontrol") {
    const int kind = w.take_one({"wait", "launch_dependents"});
    if (kind == 0) i.run = await_launches;
    return kind >= 0;
  }
  if (op == "nanosleep") {
    s.from = {1};
    return w.take("u32");
  }
  if (op != "createpolicy" || !w.take("fractional")) return false;
  while (w.take_one(
             {"L2::evict_first", "L2::evict_last", "L2::evict_normal", "L2::evict_unchanged"}) >= 0)
    continue;
  i.run = some_policy;
  s = {{1}, {1}, false, true};
  return w.take("b64");
}

}  // namespace

bool decode_roles(Words& w, Instruction& i, Shape& s) {
  const std::string& op = w.opcode();
  if (op == "setmaxnreg") {
    const int kind = w.take_one({"dec", "inc"});
    i.number = static_cast<uint32_t>(kind);
    i.flow = Flow::Aligned;
    i.run = change_registers;
    s.from = {1};
    return kind >= 0 && w.take("sync") && w.take("aligned") && w.take("u32");
  }
  return decode_hint(w, i, s);
}

}  // namespace reprise::test::ptx
