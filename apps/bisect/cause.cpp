// Derives the cause from the evidence. The interpreter executes the definition of the kernel: if
// its result is right, so is the compiler, and the fault is in the emitter or the driver.
#include <algorithm>
#include <cctype>

#include "apps/bisect/bisect.h"

namespace reprise::app {

namespace {

using Kind = Experiment::Kind;

const Experiment* find(const BisectReport& r, Kind kind, const std::string& name = {}) {
  const auto at = std::find_if(r.experiments.begin(), r.experiments.end(), [&](const auto& e) {
    return e.kind == kind && e.right() && (name.empty() || e.name == name);
  });
  return at == r.experiments.end() ? nullptr : &*at;
}

void set(BisectReport& r, std::string cause, std::string explanation) {
  r.cause = std::move(cause);
  r.explanation = std::move(explanation);
}

std::string driver_of(const BisectOptions& o) {
  return o.device.info.name + ", " + o.device.info.driver;
}

/// For reports in which every kernel is right alone.
void between_kernels(BisectReport& r) {
  const std::string alone = "Every kernel is right when it runs alone with right inputs";
  const Experiment* memory = find(r, Kind::Session, "isolate-tensors");
  const Experiment* replay = find(r, Kind::Session, "replay");
  if (r.cause == "rounding") {
    set(r, "rounding",
        alone +
            ", and the host's own results change as much if each value changes by two units in "
            "the last place: the model amplifies rounding errors");
  } else if (memory != nullptr) {
    set(r, "memory",
        alone + "; " + memory->what +
            " the model is right, too: tensors that share "
            "memory overwrite each other");
  } else if (replay != nullptr) {
    set(r, "replay", alone + "; " + replay->what + " the model is right, too");
  } else {
    set(r, "unknown",
        alone +
            ": their order, sizes that vary or the sum of small errors make the "
            "difference");
  }
}

/// "With ... it is right: ...", after the evidence so far.
std::string found_by(const std::string& evidence, const Experiment& e, const std::string& meaning) {
  std::string way = e.what;
  way[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(way[0])));
  return (evidence.empty() ? "" : evidence + " ") + way + " it is right: " + meaning;
}

/// For reports in which the definition of the kernel is wrong.
void in_compiler(BisectReport& r, const std::string& evidence) {
  if (const Experiment* e = find(r, Kind::Schedule)) {
    return set(r, "schedule " + r.reduced_schedule,
               found_by(evidence, *e, "the schedule '" + r.reduced_schedule + "' is at fault"));
  }
  for (const char* pass : {"attention", "fusion"}) {
    if (const Experiment* e = find(r, Kind::Pass, pass)) {
      return set(r, "pass " + e->name,
                 found_by(evidence, *e,
                          "the kernel that this pass makes for several nodes is wrong, and those "
                          "for the single nodes are right"));
    }
  }
  if (const Experiment* e = find(r, Kind::Pass)) {
    return set(r, "pass " + e->name,
               found_by(evidence, *e,
                        "the graph after the pass is right on the host, and the kernel that is "
                        "made from it is wrong"));
  }
  set(r, "lowering",
      (evidence.empty() ? "" : evidence + " ") +
          "No pass and no other schedule makes a difference: the lowering of these operators to '" +
          r.reduced_schedule + "' is at fault");
}

}  // namespace

void name_cause(BisectReport& r, const BisectOptions& o) {
  if (r.in_graph) return;  // the host has already found the cause
  if (r.kernel.empty()) return between_kernels(r);
  const auto same = std::find_if(r.experiments.begin(), r.experiments.end(), [](const auto& e) {
    return e.kind == Kind::Device && e.same_kernels && (e.right() || e.wrong());
  });
  const bool known = same != r.experiments.end();
  if (r.interpreter == "right") {
    const std::string means =
        "The interpreter executes the kernel with the right result, so the definition of the "
        "kernel "
        "is right";
    if (known && same->wrong()) {
      set(r, "driver or emitter",
          means + ", but it is wrong " + same->what +
              ", too: the drivers have something in common, such as a layer, or the emitter is at "
              "fault");
    } else {
      set(r, "driver",
          means + (known ? ", and " + same->what + " it is right: " : ": ") + "the driver (" +
              driver_of(o) + ") miscompiles it");
    }
    return;
  }
  const bool compiler_helps = find(r, Kind::Schedule) || find(r, Kind::Pass);
  if (r.interpreter.empty() && known && same->right() && !compiler_helps) {
    set(r, "driver",
        "No pass and no schedule makes a difference, but " + same->what +
            " the same kernels are right: the driver (" + driver_of(o) + ") is at fault");
    return;
  }
  std::string evidence;
  if (r.interpreter == "wrong") {
    evidence = "The interpreter gives a wrong result as well, so the compiler is at fault.";
  } else if (!r.interpreter.empty()) {
    evidence = "The interpreter refuses the kernel: " + r.interpreter + ".";
  }
  in_compiler(r, evidence);
}

}  // namespace reprise::app
