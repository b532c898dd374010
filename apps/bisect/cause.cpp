// From evidence to a cause. The interpreter executes what the kernel means: where it is right, the
// compiler is too, and what comes after it is not.
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

/// Every kernel alone is right.
void between_kernels(BisectReport& r) {
  const std::string alone = "Every kernel is right when it runs alone with right inputs";
  const Experiment* memory = find(r, Kind::Session, "isolate-tensors");
  const Experiment* replay = find(r, Kind::Session, "replay");
  if (r.cause == "rounding") {
    set(r, "rounding",
        alone +
            ", and the host's own results move as far when each value is changed by two units "
            "in the last place: the model amplifies rounding");
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

/// "With ... it is right: ...", after what is known already.
std::string found_by(const std::string& evidence, const Experiment& e, const std::string& meaning) {
  std::string way = e.what;
  way[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(way[0])));
  return (evidence.empty() ? "" : evidence + " ") + way + " it is right: " + meaning;
}

/// The kernel means something else than its group.
void in_compiler(BisectReport& r, const std::string& evidence) {
  if (const Experiment* e = find(r, Kind::Schedule)) {
    return set(r, "schedule " + r.reduced_schedule,
               found_by(evidence, *e, "what writes '" + r.reduced_schedule + "' is at fault"));
  }
  for (const char* pass : {"attention", "fusion"}) {
    if (const Experiment* e = find(r, Kind::Pass, pass)) {
      return set(r, "pass " + e->name,
                 found_by(evidence, *e,
                          "the kernel that this makes of several nodes is wrong, and those of the "
                          "single nodes are not"));
    }
  }
  if (const Experiment* e = find(r, Kind::Pass)) {
    return set(r, "pass " + e->name,
               found_by(evidence, *e,
                        "the graph that the pass makes is right on the host, and the kernel that "
                        "is made of it is not"));
  }
  set(r, "lowering",
      (evidence.empty() ? "" : evidence + " ") +
          "No pass and no other schedule makes a difference: what lowers these operators to '" +
          r.reduced_schedule + "' is at fault");
}

}  // namespace

void name_cause(BisectReport& r, const BisectOptions& o) {
  if (r.in_graph) return;  // the host has said it
  if (r.kernel.empty()) return between_kernels(r);
  const auto same = std::find_if(r.experiments.begin(), r.experiments.end(), [](const auto& e) {
    return e.kind == Kind::Device && e.same_kernels && (e.right() || e.wrong());
  });
  const bool known = same != r.experiments.end();
  if (r.interpreter == "right") {
    const std::string means =
        "The interpreter executes the kernel and is right, so it means what "
        "it should";
    if (known && same->wrong()) {
      set(r, "driver or emitter",
          means + ", but it is wrong " + same->what +
              ", too: the drivers have something in common, such as a layer, or what prints the "
              "kernel for them is at fault");
    } else {
      set(r, "driver",
          means + (known ? ", and " + same->what + " it is right: " : ": ") + "the driver (" +
              driver_of(o) + ") makes something else of it");
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
