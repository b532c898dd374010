// reprise.Session as Python sees it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/native/errors.h"
#include "python/native/session.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

nb::dict stats_of(const Session& session) {
  const SessionStats s = session.get().stats();
  nb::dict out;
  out["runs"] = s.runs;
  out["recordings"] = s.recordings;
  out["submits"] = s.submits;
  out["dispatches"] = s.dispatches;
  out["barriers"] = s.barriers;
  out["copies"] = s.copies;
  out["compiles"] = s.compiles;
  out["device_bytes"] = s.device_bytes;
  out["load_ms"] = s.load_ms;
  return out;
}

void bind_options(nb::module_& m) {
  nb::class_<SessionOptions>(m, "_SessionOptions")
      .def(nb::init<>())
      .def_rw("max_in_flight", &SessionOptions::max_in_flight)
      .def_rw("max_recorded", &SessionOptions::max_recorded)
      .def_rw("timestamps", &SessionOptions::timestamps)
      .def_rw("fullgraph", &SessionOptions::fullgraph)
      .def_rw("warm_up", &SessionOptions::warm_up)
      .def_rw("check_kernels", &SessionOptions::check_kernels)
      .def_rw("isolate_tensors", &SessionOptions::isolate_tensors)
      .def_rw("cache_dir", &SessionOptions::cache_dir)
      .def_rw("timeout_ns", &SessionOptions::timeout_ns)
      .def_rw("seed", &SessionOptions::seed);
  nb::class_<Times>(m, "RunTimes", "How long one run took.")
      .def_ro("plan", &Times::plan,
              "The plan that ran: 0 is the one for all sizes, n is the n-th for some sizes.")
      .def_ro("submit_us", &Times::submit_us,
              "Host work until the run was submitted, without copies, in microseconds.")
      .def_ro("total_us", &Times::total_us, "The whole run, in microseconds.")
      .def_ro("bytes_copied", &Times::bytes_copied, "Bytes copied between host and device memory.")
      .def_ro("kernel_us", &Times::kernel_us,
              "The device time of each launch in the order of Session.kernels_of(plan), in\n"
              "microseconds; empty unless the session has timestamps.");
}

constexpr const char* kRunRawText =
    R"(Runs once and waits, with little work per call.

Args:
    inputs: memory for each input, in the order of `self.inputs`: a Tensor on the session's device,
        or a contiguous array (NumPy, DLPack, buffer protocol), which is used in place. CUDA arrays
        are used in place by sessions on their device.
    outputs: writable memory of the same kinds for each output, in the order of `self.outputs`, or
        None for outputs that the run allocates. A Tensor takes the dims of the result.

Returns:
    The outputs in order: the objects that were given, and NumPy arrays for the others.)";

/// Calls that change or save all states.
template <typename Function>
void with_session(const Session& s, const Function& function) {
  const std::shared_ptr<reprise::Session> session = s.checked();
  Status status;
  {
    const nb::gil_scoped_release release;
    status = function(*session);
  }
  check(std::move(status));
}

/// The result of a call that may wait for a run.
template <typename Function>
auto without_gil(const Function& function) {
  auto result = [&] {
    const nb::gil_scoped_release release;
    return function();
  }();
  return take(std::move(result));
}

States::Info info_of(States& states) {
  return without_gil([&] { return states.info(); });
}

constexpr const char* kStatesText =
    R"(The values of all states of a model, apart from sessions, such as the caches of one conversation.

Session.make_states() makes them, and sessions use them one after another (Session.bind_states()), which
records nothing new. Only one thread at a time may use an object.)";

constexpr const char* kForkText =
    R"(Makes states with the same values. No rows are copied before both have appended to them.

Args:
    length: of the states that grow, only so many of the first rows; None: all.

Raises:
    UsageError: there are fewer rows, or a state of a fixed shape has no value for that length.
    ValueError: length is negative.)";

constexpr const char* kBindStatesText =
    R"(From now on, runs use these states, and so do truncate_states(), save_states() and the other
functions of states.

Args:
    states: of this session's model, or of another one with the same states; None: the session's own.

Raises:
    UsageError: the states are on another device, or those of another model.)";

void bind_conversations(nb::module_& m, nb::class_<Session>& c) {
  nb::class_<States>(m, "States", kStatesText)
      .def(
          "fork",
          [](States& states, std::optional<int64_t> length) {
            if (length && *length < 0) throw nb::value_error("length must not be negative");
            return without_gil([&] { return states.fork(length.value_or(-1)); });
          },
          nb::arg("length") = nb::none(), kForkText)
      .def_prop_ro(
          "nbytes", [](States& states) { return info_of(states).bytes; },
          "The bytes of their memory.")
      .def_prop_ro(
          "shared_nbytes", [](States& states) { return info_of(states).shared_bytes; },
          "Of these, the bytes of memory that forks use, too.")
      .def_prop_ro(
          "length", [](States& states) { return info_of(states).length; },
          "How many rows the longest state has that grows.");
  c.def(
      "make_states",
      [](const Session& s) {
        const std::shared_ptr<reprise::Session> session = s.checked();
        return without_gil([&] { return session->make_states(); });
      },
      "Makes states with the initial values of the package, apart from the session.");
  c.def(
      "bind_states",
      [](const Session& s, const std::shared_ptr<States>& states) {
        with_session(s, [&](reprise::Session& session) { return session.bind_states(states); });
      },
      nb::arg("states").none(), nb::sig("def bind_states(self, states: States | None) -> None"),
      kBindStatesText);
}

void bind_states(nb::class_<Session>& c) {
  c.def_prop_ro("states", &Session::states, nb::sig("def states(self) -> list[Slot]"),
                "The tensors that the session keeps from run to run, in the model's order.");
  c.def("read_state", &Session::read_state, nb::arg("name"),
        nb::sig("def read_state(self, name: str) -> typing.Any"),
        "Copies the value of the state of this name to a NumPy array.");
  c.def(
      "write_state", &Session::write_state, nb::arg("name"), nb::arg("value"),
      nb::sig("def write_state(self, name: str, value: object) -> None"),
      "Gives the state of this name the value of a contiguous array in host memory, of its dtype\n"
      "and shape.");
  c.def("_state_rows", &Session::state_rows, nb::arg("name"),
        nb::sig("def _state_rows(self, name: str) -> tuple[int, int, int]"));
  const auto change = [&c](const char* name, auto function) {
    c.def(
        name,
        [function](const Session& s, int64_t rows, const std::string& state) {
          with_session(s,
                       [&](reprise::Session& session) { return (session.*function)(state, rows); });
        },
        nb::arg("rows"), nb::arg("name"));
  };
  change("_truncate_states", &reprise::Session::truncate_states);
  change("_reserve_states", &reprise::Session::reserve_states);
  change("_limit_states", &reprise::Session::limit_states);
  c.def(
      "_save_states",
      [](const Session& s, const std::string& path) {
        with_session(s, [&](reprise::Session& session) { return session.save_states(path); });
      },
      nb::arg("path"));
  c.def(
      "_load_states",
      [](const Session& s, const std::string& path) {
        with_session(s, [&](reprise::Session& session) { return session.load_states(path); });
      },
      nb::arg("path"));
  c.def(
      "reset_states",
      [](const Session& s) {
        with_session(s, [](reprise::Session& session) { return session.reset_states(); });
      },
      "Gives all states the initial values that the package has.");
}

}  // namespace

void bind_sessions(nb::module_& m) {
  bind_options(m);
  nb::class_<Session> c(m, "Session", nb::dynamic_attr(), nb::is_weak_referenceable(),
                        "A package on a device. reprise.Session adds names to it.");
  c.def(nb::init<const Package&, nb::handle, const std::string&, SessionOptions>(),
        nb::arg("package"), nb::arg("device"), nb::arg("mode"), nb::arg("options"),
        nb::sig("def __init__(self, package: Package, device: str | Device | None, mode: str, "
                "options: _SessionOptions) -> None"));
  c.def(
      "run_raw",
      [](Session& s, nb::handle inputs, nb::handle outputs) { return s.run(inputs, outputs); },
      nb::arg("inputs"), nb::arg("outputs") = nb::none(),
      nb::sig("def run_raw(self, inputs: collections.abc.Sequence[object], outputs: "
              "collections.abc.Sequence[object | None] | None "
              "= None) -> list[typing.Any]"),
      kRunRawText);
  c.def(
      "run_timed",
      [](Session& s, nb::handle inputs, nb::handle outputs) {
        Times times;
        nb::list results = s.run(inputs, outputs, &times);
        return nb::make_tuple(results, times);
      },
      nb::arg("inputs"), nb::arg("outputs") = nb::none(),
      nb::sig("def run_timed(self, inputs: collections.abc.Sequence[object], outputs: "
              "collections.abc.Sequence[object | None] | "
              "None = None) -> tuple[list[typing.Any], RunTimes]"),
      "Takes `inputs` and `outputs` as run_raw() does; also returns how long the run took.");
  c.def_prop_ro("inputs", &Session::inputs, nb::sig("def inputs(self) -> list[Slot]"),
                "The inputs, in the model's order.");
  c.def_prop_ro("outputs", &Session::outputs, nb::sig("def outputs(self) -> list[Slot]"),
                "The outputs, in the model's order.");
  bind_states(c);
  bind_conversations(m, c);
  c.def_prop_ro("device", &Session::device, "The device that runs it.");
  c.def_prop_ro("mode", &Session::mode, "The mode in which it runs, such as 'reduce-overhead'.");
  c.def_prop_ro(
      "variant", [](const Session& s) { return s.get().variant(); },
      "The package's variant that is in use, or 'host'.");
  c.def_prop_ro(
      "variant_notes", [](const Session& s) { return s.get().variant_notes(); },
      "Why earlier variants were not used.");
  c.def_prop_ro(
      "kernels", [](const Session& s) { return s.kernels_of(0); },
      "The kernel of each launch of a run with the plan for all sizes.");
  c.def("kernels_of", &Session::kernels_of, nb::arg("plan"),
        "The kernel of each launch of a run with a plan (RunTimes.plan).");
  c.def_prop_ro("timestamps", &Session::timestamps,
                "Whether the device time of each launch is measured.");
  c.def_prop_ro(
      "stats", stats_of, nb::sig("def stats(self) -> dict[str, int | float]"),
      "Totals of all runs: 'runs', 'recordings', 'submits', 'dispatches', 'barriers' and\n"
      "'copies' that the device executed, 'device_bytes' that the session holds now, and\n"
      "'load_ms', the time that creating it took.");
  c.def("__repr__", [](const Session& s) {
    return "<reprise.Session on " + s.device()->info().id + ", variant " + s.get().variant() + ">";
  });
}

}  // namespace reprise::python
